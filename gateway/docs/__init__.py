"""The pages of documentation, and the site that is made of them."""

"""How streams reach a connection: TCP, TLS, WebSocket, XMPP; listeners that take them and links that dial them."""

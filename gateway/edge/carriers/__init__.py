"""The carriers bring streams to a connection: TCP, TLS, WebSocket and XMPP, with listeners and links for each."""

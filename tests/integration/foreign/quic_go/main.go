// A foreign QUIC client of emm: quic-go, which changes its connection id as soon as it is given another.
//
//	quic_go ADDRESS CA CERT KEY PACKET
//
// It sends PACKET (in hexadecimal) right after the handshake and prints the first packet that comes back.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	address, caFile, certFile, keyFile, packetHex := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	packet, err := hex.DecodeString(packetHex)
	check(err)
	ca, err := os.ReadFile(caFile)
	check(err)
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := quic.DialAddr(
		ctx,
		address,
		&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"emm"}},
		&quic.Config{EnableDatagrams: true},
	)
	check(err)
	check(connection.SendDatagram(packet))
	answer, err := connection.ReceiveDatagram(ctx)
	check(err)
	fmt.Println(hex.EncodeToString(answer))
	check(connection.CloseWithError(0, "bye"))
}

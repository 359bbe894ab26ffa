package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// names answers questions about names from a file with lines of a name and an address, which is read for each question: the lab has no DNS of its own, and servers of
// a pool find one another by their names.
func names(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("names", flag.ContinueOnError)
	at := f.String("listen", ":53", "address to listen at, UDP")
	file := f.String("file", "", "file with the names")
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := net.ListenPacket("udp", *at)
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = l.Close()
	}()
	question := make([]byte, 4096)
	for {
		n, from, err := l.ReadFrom(question)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := answer(question[:n], *file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		if _, err := l.WriteTo(reply, from); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// answer has the addresses of a name. A name that is known has no other records.
func answer(question []byte, file string) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(question)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	addresses, err := lookUp(file, q.Name.String())
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	if len(addresses) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}, Body: &dnsmessage.AResource{A: a},
			})
		}
	}
	return m.Pack()
}

// lookUp finds a name, which ends with a dot, with the domain of Kubernetes or without.
func lookUp(file, name string) ([][4]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSuffix(name, ".")), ".cluster.local")
	var all [][4]byte
	for line := range strings.Lines(string(text)) {
		is, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ip := net.ParseIP(address).To4(); is == name && ip != nil {
			all = append(all, [4]byte(ip))
		}
	}
	return all, nil
}

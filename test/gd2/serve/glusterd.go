package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"quarry.storage/quarry/test/gd2/remote"
)

// hubOf is where the hub is in a lab: a Service in the namespace of the pool. glusterd2 has no argument for it.
const hubOf = "http://gd2-hub:8080"

// settingsOf glusterd2, as far as the stand-in does something with them.
type settingsOf struct {
	state, client, peer, endpoints, ca, cert, key string
	serverCert, serverKey                         string
}

// glusterd takes the arguments of glusterd2. It waits until an etcd answers that accepts its certificate, as glusterd2 does not come up without one, and its store is away while none does. hub and devices
// are where the hub is, and the directory with the block devices.
func glusterd(ctx context.Context, args []string, hub, devices string) error {
	s := settingsOf{}
	f := flag.NewFlagSet("glusterd2", flag.ContinueOnError)
	f.StringVar(&s.state, "localstatedir", "/var/lib/glusterd2", "directory that has the secret in the file auth")
	f.StringVar(&s.client, "clientaddress", ":24007", "address for clients, as others are told")
	f.StringVar(&s.peer, "peeraddress", ":24008", "address for peers, as others are told")
	f.StringVar(&s.endpoints, "etcdendpoints", "", "URLs of etcd")
	f.StringVar(&s.ca, "etcd-client-ca-file", "", "authority of etcd")
	f.StringVar(&s.cert, "etcd-client-cert-file", "", "certificate for etcd")
	f.StringVar(&s.key, "etcd-client-key-file", "", "its key")
	f.StringVar(&s.serverCert, "cert-file", "", "certificate of the server")
	f.StringVar(&s.serverKey, "key-file", "", "its key")
	for _, dir := range []string{"rundir", "logdir"} {
		f.String(dir, "", "a directory that the stand-in does not use")
	}
	noembed := f.Bool("noembed", false, "must be given: the stand-in has no etcd of its own")
	if err := f.Parse(args); err != nil {
		return err
	}
	if !*noembed || s.endpoints == "" {
		return errors.New("there is no etcd but an own one: give --noembed=true and --etcdendpoints")
	}
	p := &remote.Post{Hub: hub}
	var err error
	if p.Store, err = s.etcd(); err != nil {
		return err
	}
	if err := wait(ctx, p.Store); err != nil {
		return err
	}
	if p.Name, _, err = net.SplitHostPort(s.client); err != nil {
		return err
	}
	all, err := blockDevices(devices)
	if err != nil {
		return err
	}
	if err := settings(p, s.state, p.Name, all); err != nil {
		return err
	}
	p.Registration.ClientAddress, p.Registration.PeerAddress = s.client, s.peer
	if s.serverCert != "" {
		pair, err := tls.LoadX509KeyPair(s.serverCert, s.serverKey)
		if err != nil {
			return err
		}
		p.Certificate = &pair
	}
	if p.Client, err = listen(s.client); err != nil {
		return err
	}
	if p.Peer, err = listen(s.peer); err != nil {
		return err
	}
	return p.Run(ctx)
}

// listen listens at the port of an address, whatever its host is called.
func listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", ":"+port)
}

// wait waits until the store answers.
func wait(ctx context.Context, answers func(context.Context) bool) error {
	for !answers(ctx) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// etcd returns what reports whether a member of etcd says that it serves.
func (s settingsOf) etcd() (func(context.Context) bool, error) {
	c := &http.Client{Timeout: 5 * time.Second}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(text)
		c.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: []tls.Certificate{pair}}}
	}
	return func(ctx context.Context) bool {
		var errs []error
		for endpoint := range strings.SplitSeq(s.endpoints, ",") {
			err := healthy(ctx, c, endpoint)
			if err == nil {
				return true
			}
			errs = append(errs, err)
		}
		fmt.Fprintln(os.Stderr, errors.Join(errs...))
		return false
	}, nil
}

func healthy(ctx context.Context, c *http.Client, endpoint string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", endpoint, resp.StatusCode)
	}
	return nil
}

// blockDevices are those in a directory with their sizes, in the form of the argument devices.
func blockDevices(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var all []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		size, err := f.Seek(0, io.SeekEnd)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("size of %s: %w", path, err)
		}
		all = append(all, fmt.Sprintf("%s=%d", path, size))
	}
	return strings.Join(all, ","), nil
}

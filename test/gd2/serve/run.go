package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/remote"
)

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "hub" {
		return hub(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "node" {
		return node(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "names" {
		return names(ctx, args[1:])
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "--") {
		return glusterd(ctx, args, hubOf, "/dev/gluster")
	}
	return errors.New("say hub or node first, or give the arguments of glusterd2")
}

func hub(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("hub", flag.ContinueOnError)
	listen := f.String("listen", ":8080", "address to listen at")
	heal := f.Duration("heal-time", 5*time.Second, "how long healing takes")
	if err := f.Parse(args); err != nil {
		return err
	}
	w := cluster.New(cluster.Config{HealTime: *heal})
	defer w.Close()
	h := remote.NewHub(w)
	go h.Watch(ctx)
	s := &http.Server{Addr: *listen, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// node takes its settings where glusterd2 does: GD2_PEER_ID and GD2_CLUSTER_ID of the environment, and the secret in its state.
func node(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	p := &remote.Post{}
	f.StringVar(&p.Hub, "hub", "", "URL of the hub")
	f.StringVar(&p.Name, "name", "", "name of the server; empty means the host's")
	state := f.String("localstatedir", "/var/lib/glusterd2", "directory that has the secret in the file auth; without the file no token is asked for")
	client := f.String("clientaddress", ":24007", "address for clients")
	peer := f.String("peeraddress", ":24008", "address for peers")
	public := f.String("advertise", "", "host that the addresses are told with; empty means the name")
	cert, key := f.String("cert-file", "", "certificate"), f.String("key-file", "", "its key")
	devices := f.String("devices", "", "block devices with their sizes in bytes: /dev/a=SIZE,/dev/b=SIZE")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := settings(p, *state, *public, *devices); err != nil {
		return err
	}
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			return err
		}
		p.Certificate = &pair
	}
	var err error
	if p.Client, err = net.Listen("tcp", *client); err != nil {
		return err
	}
	if p.Peer, err = net.Listen("tcp", *peer); err != nil {
		return err
	}
	return p.Run(ctx)
}

func settings(p *remote.Post, state, public, devices string) error {
	if p.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		p.Name = name
	}
	if public == "" {
		public = p.Name
	}
	secret, err := os.ReadFile(filepath.Join(state, "auth"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.Registration = remote.Registration{
		PeerAddress: net.JoinHostPort(public, "24008"), ClientAddress: net.JoinHostPort(public, "24007"),
		PeerID: os.Getenv("GD2_PEER_ID"), ClusterID: os.Getenv("GD2_CLUSTER_ID"), Secret: secret, Devices: map[string]uint64{},
	}
	for _, one := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' }) {
		path, size, _ := strings.Cut(one, "=")
		n, err := strconv.ParseUint(size, 10, 64)
		if err != nil {
			return fmt.Errorf("device %q: %w", one, err)
		}
		p.Registration.Devices[path] = n
	}
	return nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const probeTimeout = 5 * time.Second

// ServeProbes answers the kubelet's probes and serves metrics until the context ends, over plain HTTP: neither tells anything about
// data. ready says why the agent does not serve; nil when it does.
func ServeProbes(ctx context.Context, listener net.Listener, ready func() error, metrics http.Handler) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: probeTimeout, WriteTimeout: probeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve probes: %w", err)
	}
	return nil
}

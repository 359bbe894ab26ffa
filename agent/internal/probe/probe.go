// Package probe answers the kubelet's probes and serves metrics, over plain HTTP. It knows nothing of what is probed.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const timeout = 5 * time.Second

// Serve answers probes and serves metrics until the context ends. Neither tells anything about data. ready says why the agent does not
// serve; it returns nil when the agent does.
func Serve(ctx context.Context, listener net.Listener, ready func() error, metrics http.Handler) error {
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
		Handler: mux, ReadHeaderTimeout: timeout, WriteTimeout: timeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve probes: %w", err)
	}
	return nil
}

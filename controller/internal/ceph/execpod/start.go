package execpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// ErrNotStarted means that the program did not run.
var ErrNotStarted = errors.New("the program was not started")

// Program is what is started in a container. Args are seen by everybody who reads the API server's audit log: no key is among them.
type Program struct {
	Namespace, Pod, Container string
	Args                      []string
	Stdin                     io.Reader
	Stdout, Stderr            io.Writer
}

// Starter runs a program to its end, and returns its exit code. Without an error the exit code is known, and all output was written. An error is
// ErrNotStarted if the program certainly did not run. No error quotes what was read or printed.
type Starter func(ctx context.Context, p Program) (int, error)

// Remote returns a Starter that asks the API server, over a websocket, or over SPDY where something in between refuses that.
func Remote(config *rest.Config) (Starter, error) {
	config = rest.CopyConfig(config)
	// A connection of its own carries each command; the usual deadline of requests would end it.
	config.Timeout = 0
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &corev1.SchemeGroupVersion, "/api", scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client that executes in pods: %w", err)
	}
	return func(ctx context.Context, p Program) (int, error) {
		at := client.Post().Resource("pods").Namespace(p.Namespace).Name(p.Pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: p.Container, Command: p.Args, Stdin: p.Stdin != nil, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec).URL()
		executor, err := executorFor(config, at)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrNotStarted, withoutURL(err))
		}
		return outcome(executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr}))
	}, nil
}

// executorFor makes what runs one program: it keeps the state of its connection, and is of no use for the next one.
func executorFor(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
	overWebsocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// outcome tells an exit code from an error.
func outcome(err error) (int, error) {
	var ended exec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &ended):
		return ended.Code, nil
	case notStarted(err):
		return 0, fmt.Errorf("%w: %w", ErrNotStarted, withoutURL(err))
	}
	return 0, withoutURL(err)
}

// notStarted reports whether the connection that carries a program's streams never came about. A program starts after that.
func notStarted(err error) bool {
	var dial *net.OpError
	text := err.Error()
	return httpstream.IsUpgradeFailure(err) || errors.As(err, &dial) && dial.Op == "dial" ||
		strings.HasPrefix(text, "unable to upgrade connection") || strings.HasPrefix(text, "error sending request")
}

// quotedURL is how an error names the request.
var quotedURL = regexp.MustCompile(`"(https?|wss?)://[^"]*"`)

// withoutURL returns an error with the same words, but for the URL, which is as long as the command. Kinds of errors are lost but for those of the context.
func withoutURL(err error) error {
	text := errors.New(quotedURL.ReplaceAllString(err.Error(), "exec"))
	for _, kind := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%w: %w", kind, text)
		}
	}
	return text
}

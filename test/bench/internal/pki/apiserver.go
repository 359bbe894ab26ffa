package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path"
	"sync"
	"time"
)

// APIServer is as much of a Kubernetes API server as an agent needs: it takes certificate signing requests and signs them at once.
type APIServer struct {
	// URL is where it serves.
	URL       string
	authority *Authority
	server    *http.Server

	mu     sync.Mutex
	issued map[string][]byte
}

// request is what of a CertificateSigningRequest is used.
type request struct {
	Metadata struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		Request []byte `json:"request,omitempty"`
	} `json:"spec"`
	Status struct {
		Certificate []byte `json:"certificate,omitempty"`
	} `json:"status"`
}

// Serve starts the server on this machine.
func Serve(a *Authority) (*APIServer, error) {
	pair, err := a.pair(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return nil, fmt.Errorf("serve the certificates API: %w", err)
	}
	s := &APIServer{authority: a, URL: "https://" + listener.Addr().String(), issued: map[string][]byte{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(listener) //nolint:errcheck // it ends when it is closed
	return s, nil
}

// Close ends it.
func (s *APIServer) Close() { s.server.Close() }

// ServeHTTP signs what is posted, and answers it again to whoever gets it by its name.
func (s *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out request
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		chain, err := s.authority.sign(out.Spec.Request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.issued[out.Metadata.Name] = chain
		s.mu.Unlock()
	} else {
		out.Metadata.Name = path.Base(r.URL.Path)
	}
	out.Metadata.UID = out.Metadata.Name
	s.mu.Lock()
	out.Status.Certificate = s.issued[out.Metadata.Name]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(out) //nolint:errcheck // the agent asks again
}

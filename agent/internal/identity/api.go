package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"quarry.storage/quarry/pkg/quarry"
)

// namePrefix and a UUID make the name of a request.
const namePrefix = "quarry-agent-"

// requestsPath is where the API server serves certificate signing requests.
const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

const (
	// callTimeout bounds one call of the API server.
	callTimeout = 30 * time.Second
	// firstLook and lastLook are the pauses between two looks at a request that is not decided yet; they grow from one to the other.
	firstLook = 100 * time.Millisecond
	lastLook  = 5 * time.Second
	// maxAnswer bounds what is read of an error.
	maxAnswer = 64 << 10
)

// API asks the Kubernetes API server for certificates. It speaks the few requests that this takes itself: the client library's
// certificate manager costs more memory than the rest of the agent.
//
// It needs to create and get certificatesigningrequests. Getting looks again and again where a watch would be told; but whoever may
// watch requests may see those of all nodes, and RBAC cannot narrow that to names that are not known in advance. With get alone, and
// names that nobody can guess, an agent sees its own request and no other.
type API struct {
	// URL of the API server, without a path.
	URL string
	// TokenFile and CAFile are those of the pod's service account. They are read for every request, because they change.
	TokenFile, CAFile string
}

// signingRequest is what of a CertificateSigningRequest is used here.
type signingRequest struct {
	APIVersion string        `json:"apiVersion,omitempty"`
	Kind       string        `json:"kind,omitempty"`
	Metadata   objectMeta    `json:"metadata"`
	Spec       requestSpec   `json:"spec"`
	Status     requestStatus `json:"status"`
}

type objectMeta struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

type requestSpec struct {
	Request    []byte   `json:"request"`
	SignerName string   `json:"signerName"`
	Usages     []string `json:"usages"`
}

type requestStatus struct {
	Certificate []byte      `json:"certificate,omitempty"`
	Conditions  []condition `json:"conditions,omitempty"`
}

type condition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Sign creates a request for the agent's signer and waits until it is decided.
func (a API) Sign(ctx context.Context, request []byte) ([]byte, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	created, err := a.create(ctx, client, request)
	if err != nil {
		return nil, fmt.Errorf("create certificate signing request: %w", err)
	}
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		chain, err := a.look(ctx, client, created.Metadata)
		if chain != nil || err != nil {
			return chain, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for certificate signing request %s to be decided: %w", created.Metadata.Name, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// client trusts the pod's authority only.
func (a API) client() (*http.Client, error) {
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", a.CAFile)
	}
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token goes nowhere else
	}}, nil
}

func (a API) create(ctx context.Context, client *http.Client, request []byte) (signingRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(signingRequest{
		APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest",
		Metadata: objectMeta{Name: namePrefix + uuid.NewString()},
		Spec: requestSpec{
			Request: request, SignerName: quarry.SignerAgent, Usages: []string{"digital signature", "server auth"},
		},
	})
	if err != nil {
		return signingRequest{}, err
	}
	resp, err := a.do(ctx, client, http.MethodPost, requestsPath, body)
	if err != nil {
		return signingRequest{}, err
	}
	defer resp.Body.Close()
	var created signingRequest
	if err := json.NewDecoder(resp.Body).Decode(&created); err != nil {
		return signingRequest{}, fmt.Errorf("decode answer: %w", err)
	}
	if created.Metadata.Name == "" || created.Metadata.UID == "" {
		return signingRequest{}, errors.New("answer without a name or UID")
	}
	return created, nil
}

// look fetches one request. It returns the chain, or why there will be none; neither while the request is undecided.
func (a API) look(ctx context.Context, client *http.Client, meta objectMeta) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := a.do(ctx, client, http.MethodGet, requestsPath+"/"+url.PathEscape(meta.Name), nil)
	if err != nil {
		return nil, fmt.Errorf("get certificate signing request %s: %w", meta.Name, err)
	}
	defer resp.Body.Close()
	var found signingRequest
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		return nil, fmt.Errorf("decode certificate signing request %s: %w", meta.Name, err)
	}
	if found.Metadata.UID != meta.UID {
		return nil, fmt.Errorf("certificate signing request %s was replaced", meta.Name)
	}
	for _, c := range found.Status.Conditions {
		if c.Type == "Denied" || c.Type == "Failed" {
			return nil, fmt.Errorf("certificate signing request %s is %s: %s: %s", meta.Name, strings.ToLower(c.Type), c.Reason, c.Message)
		}
	}
	return found.Status.Certificate, nil
}

func (a API) do(ctx context.Context, client *http.Client, method, path string, body []byte) (*http.Response, error) {
	token, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read service account token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "quarry-agent")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what could be read is good enough for a message
		return nil, fmt.Errorf("%s: %s", resp.Status, message(answer))
	}
	return resp, nil
}

// message is the message of a Status object, else the answer as it is.
func message(answer []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &status); err == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(string(answer))
}

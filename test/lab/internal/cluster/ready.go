package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// apiClient asks the API server the few things the lab itself wants to know.
type apiClient struct {
	http *http.Client
	base string
}

func (c *Cluster) apiClient(port int) (apiClient, error) {
	ca, err := os.ReadFile(filepath.Join(c.dir.PKI(), "ca.crt"))
	if err != nil {
		return apiClient{}, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.dir.PKI(), "admin.crt"), filepath.Join(c.dir.PKI(), "admin.key"))
	if err != nil {
		return apiClient{}, err
	}
	return apiClient{
		base: fmt.Sprintf("https://127.0.0.1:%d", port),
		http: &http.Client{
			Timeout:   5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}},
		},
	}, nil
}

func (a apiClient) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return body, err
}

// nodeList is the part of a list of nodes that tells who is ready.
type nodeList struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Status struct {
			Conditions []struct {
				Type              string    `json:"type"`
				Status            string    `json:"status"`
				LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
			} `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// readyNodes lists the nodes whose kubelet said since a moment that it is
// ready. The API server keeps a dead node's last word for a while.
func readyNodes(body []byte, since time.Time) ([]string, error) {
	var list nodeList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("parse the list of nodes: %w", err)
	}
	var ready []string
	for _, n := range list.Items {
		for _, condition := range n.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && !condition.LastHeartbeatTime.Before(since) {
				ready = append(ready, n.Metadata.Name)
			}
		}
	}
	return ready, nil
}

// readyNodes lists the nodes that said since a moment that they are ready.
func (c *Cluster) readyNodes(ctx context.Context, desc state.Description, since time.Time) ([]string, error) {
	api, err := c.apiClient(desc.Port)
	if err != nil {
		return nil, err
	}
	body, err := api.get(ctx, "/api/v1/nodes")
	if err != nil {
		return nil, err
	}
	return readyNodes(body, since)
}

// ready lists the nodes that are ready: those of which Kubernetes heard so since
// a moment, or those of a bare lab whose devices are there.
func (c *Cluster) ready(ctx context.Context, desc state.Description, since time.Time) ([]string, error) {
	if !desc.Lab.Bare {
		return c.readyNodes(ctx, desc, since)
	}
	var ready []string
	var errs []error
	for _, name := range desc.Lab.NodeNames() {
		if _, err := c.capture(ctx, name, "test", "-e", node.BareReady); err != nil {
			errs = append(errs, err)
			continue
		}
		ready = append(ready, name)
	}
	// A node that does not run hides nothing of the others.
	if len(ready) > 0 {
		return ready, nil
	}
	return nil, errors.Join(errs...)
}

// waitAPIServer waits until the API server serves, or one of the processes that it needs ends.
func (c *Cluster) waitAPIServer(ctx context.Context, desc state.Description, needed ...string) error {
	api, err := c.apiClient(desc.Port)
	if err != nil {
		return err
	}
	return c.wait(ctx, needed, "the API server is not ready", func() (bool, error) {
		_, err := api.get(ctx, "/readyz")
		return err == nil, err
	})
}

// waitNodes waits until every node said since a moment that it is ready.
func (c *Cluster) waitNodes(ctx context.Context, desc state.Description, since time.Time) error {
	var reported []string
	return c.wait(ctx, processNames(desc.Lab), "not all nodes are ready", func() (bool, error) {
		ready, err := c.ready(ctx, desc, since)
		if err != nil {
			return false, err
		}
		for _, name := range ready {
			if !slices.Contains(reported, name) {
				c.report.Step("node %s ready", name)
				reported = append(reported, name)
			}
		}
		if len(ready) < desc.Lab.Nodes {
			return false, fmt.Errorf("ready are %s", strings.Join(ready, ", "))
		}
		return true, nil
	})
}

// wait polls until done says yes, a needed process ends, or patience does.
func (c *Cluster) wait(ctx context.Context, needed []string, what string, done func() (bool, error)) error {
	deadline := time.Now().Add(readyPatience)
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if dead := c.dead(needed); len(dead) > 0 {
			return fmt.Errorf("%s: %s ended, see %s", what, strings.Join(dead, ", "), c.dir.ComponentLog(dead[0]))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s after %s: %w", what, readyPatience, err)
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// processNames lists the processes that a lab is not complete without.
func processNames(lab spec.Lab) []string { return append(components(lab), lab.NodeNames()...) }

// dead lists those of the processes that do not run.
func (c *Cluster) dead(needed []string) []string {
	var dead []string
	for _, name := range needed {
		if !c.processes.Alive(name) {
			dead = append(dead, name)
		}
	}
	return dead
}

func (c *Cluster) allAlive(lab spec.Lab) bool { return len(c.dead(processNames(lab))) == 0 }

// waitNode waits until the kubelet of a node that was started again says that
// it is ready.
func (c *Cluster) waitNode(ctx context.Context, desc state.Description, name string) error {
	started := now()
	return c.wait(ctx, append(components(desc.Lab), name), "node "+name+" is not ready", func() (bool, error) {
		ready, err := c.ready(ctx, desc, started)
		if err != nil {
			return false, err
		}
		if !slices.Contains(ready, name) {
			return false, fmt.Errorf("nothing was heard of it, see `lab logs %s`", name)
		}
		return true, nil
	})
}

// now is the present as the API server would write it down: it keeps whole
// seconds.
func now() time.Time { return time.Now().Truncate(time.Second) }

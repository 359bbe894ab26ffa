//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// metricName is the name of a metric of Ceph.
var metricName = regexp.MustCompile(`\bceph_[a-z_]+`)

// metricsServed switches the metrics on. The manager that serves tells every metric that the rules for alerts ask for.
func metricsServed(t *testing.T, c *v1alpha1.Cluster) {
	rules, err := os.ReadFile(filepath.Join(repoRoot(), "deploy", "optional", "ceph-alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Ceph.Metrics = true })
	eventually(t, 5*time.Minute, "the metrics of the alerts are served", func(ctx context.Context) error {
		service := &corev1.Service{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: cephname.Namespace, Name: cephname.Metrics(c.Name)}, service); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, client.InNamespace(cephname.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
			return err
		}
		// One that stands by has nothing to tell, or does not listen.
		text, silent := "", error(nil)
		for _, p := range pods.Items {
			served, err := metricsOf(ctx, p.Status.PodIP, cephname.PortMetrics)
			silent = errors.Join(silent, err)
			text += served
		}
		told := metricName.FindAllString(text, -1)
		for line := range strings.Lines(string(rules)) {
			if !strings.Contains(line, "expr:") {
				continue
			}
			for _, name := range metricName.FindAllString(line, -1) {
				if !slices.Contains(told, name) {
					return fmt.Errorf("%d pods tell no %s, but %d names and %d bytes: %w", len(pods.Items), name, len(told), len(text), silent)
				}
			}
		}
		return nil
	})
}

// metricsOf reads the metrics that a pod serves.
func metricsOf(ctx context.Context, address string, port int) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, strconv.Itoa(port))+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := inLab.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

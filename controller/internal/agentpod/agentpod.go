// Package agentpod finds the pods that the agents run in: which pod is the agent of a node. It writes nothing.
package agentpod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Label and Value mark the pods of agents, see deploy/base/agent.yaml.
const (
	Label = "app.kubernetes.io/name"
	Value = "quarry-agent"
)

// DaemonSet is the name of the agents' DaemonSet; their service account and NetworkPolicy have the same.
const DaemonSet = "quarry-agent"

// container is the name of the agent's container in its pod.
const container = "agent"

// indexNode is the index of pods by the node that they run on.
const indexNode = "spec.nodeName"

// Selector selects the pods of agents.
func Selector() labels.Selector { return labels.SelectorFromSet(labels.Set{Label: Value}) }

// NodesOf returns the node that a pod runs on; nothing for another object, and for a pod that is not scheduled.
func NodesOf(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// Index adds the index to a cache that Newest needs.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexNode, NodesOf); err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	return nil
}

// Nodes returns the names of the nodes with a pod of an agent in one of the namespaces, ordered.
func Nodes(ctx context.Context, reader client.Reader, namespaces []string) ([]string, error) {
	var nodes []string
	for _, namespace := range namespaces {
		var list corev1.PodList
		if err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{Label: Value}); err != nil {
			return nil, fmt.Errorf("list agent pods in %s: %w", namespace, err)
		}
		for i := range list.Items {
			nodes = append(nodes, NodesOf(&list.Items[i])...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// Newest returns the pod that is the agent of a node: of several in these namespaces, while one replaces the other, the newest that runs and
// has an address; nil when there is none.
func Newest(ctx context.Context, reader client.Reader, namespaces []string, node string) (*corev1.Pod, error) {
	var newest *corev1.Pod
	for _, namespace := range namespaces {
		var list corev1.PodList
		err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{Label: Value}, client.MatchingFields{indexNode: node})
		if err != nil {
			return nil, fmt.Errorf("list agent pods of node %s in %s: %w", node, namespace, err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			runs := p.DeletionTimestamp.IsZero() && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
			if runs && (newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp)) {
				newest = p
			}
		}
	}
	return newest, nil
}

// Image returns the image that the agent of a pod runs; empty when the pod has no such container, as in a cache that drops it.
func Image(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

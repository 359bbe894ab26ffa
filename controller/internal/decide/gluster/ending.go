package gluster

import (
	"fmt"
	"strings"
	"time"
)

// Ending is what was asked to go already and still exists. To ask once more changes nothing, so it is waited for.
type Ending struct {
	// Workload is the one whose pod has to end; empty when Claims are waited for.
	Workload string
	// Pod of it, if there is one, and the Node of Kubernetes that it is on.
	Pod, Machine string
	// Orphan: nobody asked the pod to end, as it has no workload any more.
	Orphan bool
	Claims []string
	// Since is when it was asked to go.
	Since time.Time
}

// Message says what is waited for, since when, and what to do if it never goes.
func (e Ending) Message() string {
	since := e.Since.UTC().Format(time.RFC3339)
	switch {
	case e.Workload == "":
		return fmt.Sprintf("These claims were deleted at %s and still exist: %s. A claim goes once no pod uses it: look which one does.", since, strings.Join(e.Claims, ", "))
	case e.Orphan:
		return fmt.Sprintf("The pod %s has no workload any more, and nobody else asks it to end: delete it.", e.Pod)
	case e.Pod == "":
		return fmt.Sprintf("The StatefulSet %s was deleted at %s and still exists: look at its finalizers.", e.Workload, since)
	case e.Machine == "":
		return fmt.Sprintf("The pod %s was asked to end at %s and still exists.", e.Pod, since)
	}
	return fmt.Sprintf("The pod %s was asked to end at %s and still exists. If the machine %s is off and stays so, taint its Node (kubectl taint nodes %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute), or delete its Node.",
		e.Pod, since, e.Machine, e.Machine)
}

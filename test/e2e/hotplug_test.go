//go:build e2e

package e2e

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestHotplugIsSeenWithinASecond plugs a disk into a running node and waits for the watch event of the StorageNode that shows it.
// The clock starts when the kernel has the device.
func TestHotplugIsSeenWithinASecond(t *testing.T) {
	for _, bus := range []string{"ubd", "scsi"} {
		t.Run(bus, func(t *testing.T) {
			watch, err := kube.Watch(t.Context(), &v1alpha1.StorageNodeList{}, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "n2")})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			d := plug(t, "n2", newImage(t, "new", 1<<30), bus)
			plugged := time.Now()
			timeout := time.After(20 * time.Second)
			for {
				select {
				case event := <-watch.ResultChan():
					node, ok := event.Object.(*v1alpha1.StorageNode)
					if !ok {
						t.Fatalf("watch: %+v", event)
					}
					found := deviceOf(node, d.kernelName())
					if found == nil {
						continue
					}
					if !found.Available {
						t.Logf("%v seen as not available: %v", time.Since(plugged).Round(time.Millisecond), refusals(found))
						continue
					}
					took := time.Since(plugged)
					t.Logf("seen as available after %v", took.Round(time.Millisecond))
					if took > time.Second {
						t.Errorf("seen after %v, want within a second", took)
					}
					return
				case <-timeout:
					t.Fatalf("%s is not on the StorageNode", d.device)
				}
			}
		})
	}
}

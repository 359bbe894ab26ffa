//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestUsedDiskIsNeverTouched plugs every kind of used disk into nodes whose clean disks a Cluster takes without any selector, at any time.
// Each must be refused with its reason, and not one byte of it may change.
func TestUsedDiskIsNeverTouched(t *testing.T) {
	c := newCluster("takes-all", nodes...)
	c.Spec.Devices.Hotplug = true
	create(t, c)
	waitReady(t, "takes-all", time.Minute)

	kinds := append(slices.Clone(formattedDisks), disksInUse...)
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds", len(kinds))
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			node := lease(t)
			image := newImage(t, "used", usedSize)
			if kind.format != nil {
				kind.format(t, image)
			}
			checkUntouched(t, node, image, kind)
		})
	}
}

// checkUntouched plugs the disk in, waits for its refusal, lets the Cluster look again, and compares all bytes.
func checkUntouched(t *testing.T, node, image string, kind usedDisk) {
	t.Helper()
	used := kind.arm(t, node)
	d := plug(t, node, image, "ubd")
	used(d)
	before := checksumOnNode(t, d)
	waitRefused(t, d, kind.reasons)
	reconcileAgain(t, "takes-all")
	c := waitReady(t, "takes-all", 30*time.Second)
	if c.Status.DeviceCount != int32(2*len(nodes)) {
		t.Errorf("the Cluster has %d devices: %v", c.Status.DeviceCount, devicesOf(t, c.Name))
	}
	if after := checksumOnNode(t, d); after != before {
		t.Errorf("the disk was changed: %s, before %s", after, before)
	}
}

// armed waits in the node for a disk that was not there, and uses it at once. The agent takes a disk that is clean for some seconds, as it should; a machine
// that is slow to start one more command from outside would come too late.
const armed = `modprobe -a raid1 dm-mod 2>/dev/null || true
rm -f /run/armed
known=" $(echo /sys/block/ubd*) "
for i in $(seq 6000); do
  for found in /sys/block/ubd*; do
    DEV=/dev/${found##*/}
    case "$known" in *" $found "*) continue ;; esac
    [ -b "$DEV" ] || continue
    use=$(cat <<'END'
%s
END
)
    eval "${use//DEV/$DEV}"
    exit 0
  done
  touch /run/armed
  sleep 0.01
done
echo "no disk was plugged in"
exit 1`

// arm prepares the use of the disk that is plugged into the node next. The function that it returns waits until it is in use, and has it released at the end.
func (k usedDisk) arm(t *testing.T, node string) func(*disk) {
	t.Helper()
	if k.use == "" {
		return func(*disk) {}
	}
	onNode(t, node, "rm -f /run/armed")
	done := make(chan error, 1)
	go func() {
		_, err := tryOnNode(node, fmt.Sprintf(armed, k.use))
		done <- err
	}()
	eventually(t, 30*time.Second, "the node waits for the disk", func(context.Context) error {
		_, err := tryOnNode(node, "test -e /run/armed")
		return err
	})
	return func(d *disk) {
		t.Helper()
		t.Cleanup(func() {
			if k.release == "" {
				return
			}
			if _, err := tryOnNode(node, strings.ReplaceAll(k.release, "DEV", d.device)); err != nil {
				t.Error(err)
			}
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// checksumOnNode reads the device through the node's kernel, past its cache, so that a write of anybody counts.
func checksumOnNode(t *testing.T, d *disk) string {
	t.Helper()
	onNode(t, d.node, "sync; blockdev --flushbufs "+d.device)
	return checksum(t, d.image)
}

func waitRefused(t *testing.T, d *disk, reasons []string) {
	t.Helper()
	eventually(t, 15*time.Second, fmt.Sprintf("%s is refused for %v", d.device, reasons), func(ctx context.Context) error {
		n, err := getNode(ctx, d.node)
		if err != nil {
			return err
		}
		found := deviceOf(n, d.kernelName())
		if found == nil {
			return fmt.Errorf("not listed")
		}
		if found.Available {
			return fmt.Errorf("available")
		}
		for _, want := range reasons {
			if !slices.Contains(refusals(found), want) {
				return fmt.Errorf("refused for %v, want %s", found.Refusals, want)
			}
		}
		for _, r := range found.Refusals {
			if len(r.Message) < 10 {
				return fmt.Errorf("the reason %s has no sentence: %q", r.Reason, r.Message)
			}
		}
		return nil
	})
}

// reconcileAgain changes the spec in a way that matters to nothing but makes the controller look at every disk again.
func reconcileAgain(t *testing.T, name string) {
	t.Helper()
	update(t, name, func(c *v1alpha1.Cluster) {
		if c.Spec.Devices == nil {
			c.Spec.Devices = &v1alpha1.DeviceSelector{}
		}
		size := resource.NewQuantity(300<<20+c.Generation<<9, resource.BinarySI)
		c.Spec.Devices.MinSize = size
	})
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

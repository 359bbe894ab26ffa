package node

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// devicePatience is how long a plugged device may take to show.
const devicePatience = 10 * time.Second

// WaitDevice waits until a block device is there and udev has made its links.
func WaitDevice(path string) error {
	deadline := time.Now().Add(devicePatience)
	for {
		if _, err := os.Stat(path); err == nil {
			return exec.Command("udevadm", "settle", "--timeout=15").Run()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no %s after %s", path, devicePatience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

package netns

import (
	"errors"
	"os"
	"testing"
)

func TestEnter(t *testing.T) {
	if err := Enter("/proc/self/ns/net", nil); err != nil {
		t.Errorf("where it is already: %v", err)
	}
	if err := Enter("/nonexistent", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
}

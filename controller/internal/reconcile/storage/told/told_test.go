package told

import (
	"testing"
	"time"
)

func TestMembers(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := &Members{}
	before := m.Until(now)
	if before("a") {
		t.Error("nobody told of it")
	}
	m.Tell("a", now)
	if before("a") {
		t.Error("what was read before has not what was told since")
	}
	since := m.Until(now)
	if !since("a") || since("b") {
		t.Error("told of a only")
	}
	if m.Tell("a", now.Add(time.Minute)); !since("a") {
		t.Error("it was told of once more")
	}
	if m.Until(now.Add(6*time.Minute + time.Second))("a") {
		t.Error("nobody told of it lately")
	}
	late := m.Until(now.Add(10 * time.Minute))
	if m.Tell("a", now.Add(10*time.Minute)); late("a") {
		t.Error("what was read before has not what was told after a while")
	}
	if !m.Until(now.Add(10 * time.Minute))("a") {
		t.Error("it was told of again")
	}
	if m.Forget("a"); m.Until(now.Add(10 * time.Minute))("a") {
		t.Error("it is gone")
	}
	var none *Members
	none.Tell("a", now)
	if none.Until(now)("a") {
		t.Error("nobody remembers it")
	}
	none.Forget("a")
}

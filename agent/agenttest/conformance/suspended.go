package conformance

import "time"

// suspendedIsResumed: a command was killed while it changed the device of a volume, and every reader and writer of that waits. No call says
// that all is well before that has ended, and an agent that starts ends it by itself.
func suspendedIsResumed(s *suite) {
	s.stage()
	s.pool()
	thin := volumeSpec("thin", 8)
	thin.ThinPool = poolName
	snapshot := volumeSpec("snap", 8)
	snapshot.Source, snapshot.Snapshot = "thin", true
	call := func(what, name string, call func() error) {
		s.Helper()
		s.must(what, call())
		if s.Suspended(s.T, groupName, name) {
			s.Errorf("%s: %s is suspended after it", what, name)
		}
	}
	create := func(name string) func() error {
		return func() error {
			req := volumeSpec(name, 8)
			switch name {
			case "thin":
				req = thin
			case "snap":
				req = snapshot
			}
			_, err := s.create(req)
			return err
		}
	}
	s.must("create", create("linear")())
	s.must("create", create("thin")())
	for _, name := range []string{"linear", "thin"} {
		s.SuspendVolume(s.T, groupName, name)
		call("create "+name+" again", name, create(name))
		s.SuspendVolume(s.T, groupName, name)
		call("resize "+name+" to what it is", name, func() error { _, err := s.resize(name, 8, 0); return err })
		s.SuspendVolume(s.T, groupName, name)
		call("resize "+name, name, func() error { _, err := s.resize(name, 16, 0); return err })
	}
	thin.SizeBytes = 16 * mib
	snapshot.SizeBytes = 16 * mib
	s.SuspendVolume(s.T, groupName, "thin")
	call("snapshot", "thin", create("snap"))
	s.SuspendVolume(s.T, groupName, "thin")
	call("snapshot again", "thin", create("snap"))
	s.SuspendVolume(s.T, groupName, "linear")
	s.Restart(s.T)
	for deadline := time.Now().Add(settleTimeout); s.Suspended(s.T, groupName, "linear"); time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatal("linear is still suspended after the agent's start")
		}
	}
	s.SuspendVolume(s.T, groupName, "linear")
	s.must("delete", s.delete("linear"))
}

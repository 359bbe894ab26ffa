package ceph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/host/dm/crypt"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// machine is one disk that is to be encrypted, with the programs and the mapping. Each call dies at its number, before it has an effect or after it.
type machine struct {
	device plan.Device
	inner  *osd.Label
	mapped bool
	calls  []string

	die   int
	after bool
	wrong map[string]error
}

var errDied = errors.New("the agent died")

// do is one call.
func (m *machine) do(name string, effect func() error) error {
	m.calls = append(m.calls, name)
	if m.die > 0 && (m.die < len(m.calls) || m.die == len(m.calls) && !m.after) {
		return errDied // Nothing is done after a death: what is deferred has no effect either.
	}
	if err := m.wrong[name]; err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	if m.die == len(m.calls) {
		return errDied
	}
	return nil
}

func nothing() error { return nil }

func (m *machine) verify(verify apply.Verify) error {
	d := m.device
	if m.mapped {
		return fmt.Errorf("%w: the disk is below a mapping", plan.ErrRefused)
	}
	return verify(d)
}

func (m *machine) Check(_ context.Context, _ string, verify apply.Verify) error {
	return m.do("check", func() error { return m.verify(verify) })
}

func (m *machine) put(uuid string, ready bool) {
	m.device.Headers, m.device.Signatures, m.device.HeadTailZero = nil, nil, false
	for _, off := range []int64{0, osd.HeaderBytes} {
		m.device.Headers = append(m.device.Headers, osd.Header{Offset: off, UUID: uuid, FSID: cluster, Sequence: 4, SizeBytes: m.device.SizeBytes, Ready: ready})
		m.device.Signatures = append(m.device.Signatures, plan.Signature{Type: "crypto_LUKS", Offset: off, UUID: uuid})
	}
}

func (m *machine) SealOSD(_ context.Context, _, uuid string, start []byte, verify apply.Verify) error {
	return m.do("seal disk", func() error {
		if err := m.verify(verify); err != nil || string(start) != "start" {
			return errors.Join(err, errors.New("not what cryptsetup made"))
		}
		m.put(uuid, false)
		return nil
	})
}

func (m *machine) FinishOSD(_ context.Context, _, uuid string, headers []byte, verify apply.Verify) error {
	return m.do("finish disk", func() error {
		if err := m.verify(verify); err != nil || string(headers) != "headers" {
			return errors.Join(err, errors.New("not what cryptsetup made"))
		}
		m.put(uuid, true)
		return nil
	})
}

func (m *machine) Headers(context.Context, string, string) ([]byte, error) {
	return []byte("start"), m.do("read headers", nothing)
}

func (m *machine) Label(_ context.Context, path string) (osd.Label, error) {
	if m.inner == nil || path != "/dev/dm-3" {
		return osd.Label{}, osd.ErrNone
	}
	return *m.inner, m.do("label", nothing)
}

func (m *machine) Find(string) error { return m.do("find", nothing) }
func (m *machine) FindEncryption(context.Context, string) error {
	return m.do("find encryption", nothing)
}

func (m *machine) Seal(context.Context, hostceph.Seal) ([]byte, error) {
	return []byte("start"), m.do("seal", nothing)
}

func (m *machine) Finish(context.Context, string, string, []byte) ([]byte, error) {
	return []byte("headers"), m.do("finish", nothing)
}

func (m *machine) Open(_ context.Context, o hostceph.Open) error {
	return m.do("open", func() error {
		if m.mapped || len(m.device.Headers) == 0 || o.Key.IsZero() || o.Number != unix.Mkdev(8, 16) {
			return errors.New("it cannot be opened")
		}
		m.mapped = true
		return nil
	})
}

func (m *machine) Mkfs(_ context.Context, mk hostceph.Make) error {
	return m.do("mkfs", func() error {
		if !m.mapped || mk.Device != "/dev/dm-3" || mk.Number != unix.Mkdev(252, 3) {
			return errors.New("not the mapping")
		}
		m.inner = &osd.Label{UUID: mk.UUID, FSID: mk.FSID, ID: "7", Description: "main", SizeBytes: 1 << 30, Ready: true}
		return nil
	})
}

// mappings are those of the machine.
type mappings struct{ *machine }

func (m mappings) Find(context.Context, string, uint64) (crypt.Mapping, error) {
	return crypt.Mapping{Path: "/dev/dm-3", Number: unix.Mkdev(252, 3)}, m.do("mapping", nothing)
}

func (m mappings) Close(context.Context, string, uint64) error {
	return m.do("close", func() error { m.mapped = false; return nil })
}

// steps are those for the disk as it is; how it was when the decision was made does not matter after a death.
func (m *machine) steps(t *testing.T) []plan.Step {
	t.Helper()
	uuid, err := osd.UUID(cluster, osd.Disk{Serial: "S", SizeBytes: 2 << 30, Node: "n1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := osd.NewKey(bytes.Repeat([]byte("k"), osd.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	d := m.device
	if m.mapped {
		d.Holders = []string{"dm-3"}
	}
	spec := prep.Spec{
		Node: "n1", Device: plan.IdentityOf(emptyDisk()), ClusterUID: cluster, Want: osd.Wanted{UUID: uuid, FSID: cluster, ID: 7, Encrypted: true}, Tools: tools, Key: key, Fresh: true,
	}
	p, err := prep.Prepare(plan.Snapshot{Devices: []plan.Device{d, {KernelName: "dm-3", Mapping: osd.MappingUUID(uuid)}}}, spec, policy)
	if err != nil {
		t.Fatalf("after %q: %v", m.calls, err)
	}
	return p.Steps
}

func (m *machine) perform(t *testing.T, steps []plan.Step) error {
	t.Helper()
	a := Adapter{Tool: m, Devices: m, Mappings: mappings{m}}
	for _, s := range steps {
		if _, clears := s.(prep.ClearOSD); clears {
			if m.mapped {
				return fmt.Errorf("%s, and it is open", s)
			}
			m.device, m.inner = emptyDisk(), nil
			continue
		}
		if err := a.Perform(t.Context(), s); err != nil {
			return err
		}
	}
	return nil
}

// TestPerform_encryptedKilled: the agent dies at each call, before it or after it. The disk is empty, unfinished or ready, and the repeated call makes it the OSD, closed.
func TestPerform_encryptedKilled(t *testing.T) {
	whole := &machine{device: emptyDisk()}
	if err := whole.perform(t, whole.steps(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"find encryption", "seal", "seal disk", "check", "close", "open", "mapping", "mkfs", "label", "close", "check", "read headers", "finish", "finish disk", "check"}
	if !slices.Equal(whole.calls, want) || whole.mapped {
		t.Fatalf("%q, open: %t", whole.calls, whole.mapped)
	}
	for die := range want {
		for _, after := range []bool{false, true} {
			m := &machine{device: emptyDisk(), die: die + 1, after: after}
			if err := m.perform(t, m.steps(t)); !errors.Is(err, errDied) {
				t.Fatalf("death at %s: %v", want[die], err)
			}
			m.die = 0
			if err := m.perform(t, m.steps(t)); err != nil {
				t.Fatalf("death at %s, repeated: %v, after %q", want[die], err, m.calls)
			}
			if len(m.steps(t)) > 0 || m.mapped {
				t.Fatalf("death at %s: %+v, open: %t", want[die], m.device, m.mapped)
			}
		}
	}
}

// TestPerform_encryptedBelievesNobody: what did not end well is not finished, and nothing stays open.
func TestPerform_encryptedBelievesNobody(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		wrong map[string]error
		want  error
	}{
		"no cryptsetup":          {map[string]error{"find encryption": hostceph.ErrNoEncryption}, prep.ErrNoEncryption},
		"cryptsetup fails":       {map[string]error{"seal": broken}, broken},
		"it is not opened":       {map[string]error{"open": broken}, broken},
		"another disk is opened": {map[string]error{"mapping": crypt.ErrOther}, plan.ErrRefused},
		"ceph-osd fails":         {map[string]error{"mkfs": broken}, broken},
		"the label is not read":  {map[string]error{"label": broken}, plan.ErrMismatch},
		"somebody has it open":   {map[string]error{"close": crypt.ErrInUse}, plan.ErrRefused},
		"the token fails":        {map[string]error{"finish": broken}, broken},
	} {
		m := &machine{device: emptyDisk(), wrong: tt.wrong}
		if err := m.perform(t, m.steps(t)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if m.mapped || slices.ContainsFunc(m.device.Headers, func(h osd.Header) bool { return h.Ready }) {
			t.Errorf("%s: open %t, %+v", name, m.mapped, m.device.Headers)
		}
	}
	// Programs that end well and made nothing, or another OSD, are not believed either.
	for name, label := range map[string]*osd.Label{
		"nothing": nil, "another OSD": {UUID: cluster, FSID: cluster, ID: "7", Description: "main", Ready: true}, "one that is not ready": {UUID: "x", Description: "main"},
	} {
		a := Adapter{Tool: nil, Devices: &machine{inner: label}}
		if err := a.inside(t.Context(), osd.Wanted{UUID: other(t), FSID: cluster, ID: 7, Encrypted: true}, "/dev/dm-3"); !errors.Is(err, plan.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func other(t *testing.T) string {
	t.Helper()
	uuid, err := osd.UUID(cluster, osd.Disk{Serial: "S", SizeBytes: 2 << 30, Node: "n1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return uuid
}

package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Step is one change of the disks of one host.
type Step struct {
	// Host that it happens on.
	Host string
	// Action is one of the constants v1alpha1.ActionXxx.
	Action string
	// Group that is changed; empty for a wipe.
	Group string
	// Owner is the UID of the Cluster.
	Owner string
	// Devices that it is about.
	Devices []Device
	// ThinPool that is made or grown; nil for any other step. Its group and owner are those of the step.
	ThinPool *ThinPoolSpec
	// Reason for it, one sentence.
	Reason string
}

// Destroys says whether the step destroys what somebody else wrote.
func (s Step) Destroys() bool { return s.Action == v1alpha1.ActionWipeDevice }

// Digest identifies the step by what it does to which devices. For a wipe the content that was seen counts too, so that a
// disk that was exchanged or written to since is another step. Removing an empty group is the same step whatever is left of
// its devices.
func (s Step) Digest() string {
	type device struct {
		Path, WWN, Serial string
		Size              int64
		Content           string `json:",omitempty"`
	}
	devices := make([]device, 0, len(s.Devices))
	for _, d := range s.Devices {
		if s.Action == v1alpha1.ActionRemoveVolumeGroup {
			break
		}
		v := device{Path: d.Path, WWN: d.WWN, Serial: d.Serial, Size: d.SizeBytes}
		if s.Destroys() {
			v.Content = d.Digest
		}
		devices = append(devices, v)
	}
	slices.SortFunc(devices, func(a, b device) int { return strings.Compare(a.Path, b.Path) })
	return digest(struct {
		Owner, Host, Action, Group string
		Devices                    []device
		ThinPool                   *ThinPoolSpec `json:",omitempty"`
	}{s.Owner, s.Host, s.Action, s.Group, devices, s.ThinPool})
}

// API returns the step as it is shown in the status.
func (s Step) API() v1alpha1.PlanStep {
	p := v1alpha1.PlanStep{Host: s.Host, Action: s.Action, VolumeGroup: s.Group, Reason: s.Reason, Digest: s.Digest()}
	if s.ThinPool != nil {
		p.ThinPool = s.ThinPool.Describe()
	}
	for _, d := range s.Devices {
		p.Devices = append(p.Devices, d.Describe())
	}
	return p
}

// Describe returns the device as a person recognises it: "path (model serial, size)".
func (d Device) Describe() string {
	size := Bytes(d.SizeBytes)
	var what string
	for _, s := range []string{d.Model, d.Serial} {
		if s != "" {
			what += s + " "
		}
	}
	if what == "" {
		return fmt.Sprintf("%s (%s)", d.Path, size)
	}
	return fmt.Sprintf("%s (%s, %s)", d.Path, what[:len(what)-1], size)
}

// Bytes returns a size as a quantity with a binary suffix.
func Bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// DigestOf returns the digest over an ordered list of steps.
func DigestOf(steps []Step) string {
	all := make([]string, 0, len(steps))
	for _, s := range steps {
		all = append(all, s.Digest())
	}
	return digest(all)
}

// digest returns the first 128 bits of the SHA-256 of the JSON of a value that has no maps in it.
func digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		// Strings and integers always marshal; should a type be added that does not, no approval must match.
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

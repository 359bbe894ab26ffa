package decide

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	mib   = 1 << 20
	uuidA = "aaaaaa-1234-5678-9abc-DEFG-hijk-LMNOPQ"
	uuidB = "bbbbbb-1234-5678-9abc-DEFG-hijk-LMNOPQ"
	owner = "0f3b2c1d-1111-2222-3333-444455556666"
)

var (
	held = sharedlun.Volume{
		Name: "held", UUID: uuidA, SizeBytes: 8 * mib, HeldBy: "n1", ReadyBytes: 4 * mib, Tags: []string{"x=1"},
		Ranges: []sharedlun.Range{{Start: mib, Size: 8 * mib}},
	}
	idle    = sharedlun.Volume{Name: "idle", UUID: uuidB, SizeBytes: 8 * mib}
	leaving = sharedlun.Volume{Name: "leaving", UUID: uuidA, SizeBytes: 4 * mib, HeldBy: "n1", Leaving: true}
	started = sharedlun.Volume{Name: "begins", UUID: uuidA, SizeBytes: 4 * mib, HeldBy: "n1", MakingOn: "n2"}
	visible = sharedlun.Volume{Name: "seen", UUID: uuidA, SizeBytes: 4 * mib, HeldBy: "n1", Used: true}
	read    = sharedlun.Volume{Name: "read", UUID: uuidA, SizeBytes: 4 * mib, Readers: boots("boot-1")}
	group   = sharedlun.Group{
		UUID: uuidB, Name: "g", OwnerUID: owner, Epoch: 5, Sequence: 40, SizeBytes: 40 * mib, FreeBytes: 24 * mib, ExtentBytes: 4 * mib,
		Volumes: []sharedlun.Volume{started, held, idle, leaving, read, visible},
	}
)

func boots(id string) []sharedlun.Boot { return []sharedlun.Boot{{Node: "n1", ID: id}} }

func fenced(name, uuid, bootID string) *sharedlun.Release {
	return &sharedlun.Release{Hold: sharedlun.Hold{Name: name, UUID: uuid, Node: "n1"}, FencedBootID: bootID}
}

func mark(name, node string) *sharedlun.Hold {
	return &sharedlun.Hold{Name: name, UUID: uuidA, Node: node}
}

func parting(name, uuid, node string, ready int64) sharedlun.Change {
	return sharedlun.Change{Leave: &sharedlun.Hold{Name: name, UUID: uuid, Node: node, ReadyBytes: ready}}
}

// tooMuch reports whether a change that is not valid is refused for what the group has.
func tooMuch(c sharedlun.Change) bool {
	return c.Ready != nil && c.Ready.Bytes%512 == 0 || c.Leave != nil && c.Leave.ReadyBytes > 0 && c.Leave.ReadyBytes%512 == 0
}

func TestChange(t *testing.T) {
	for name, c := range map[string]struct {
		change sharedlun.Change
		want   Step
		err    error
	}{
		"a new volume":                                         {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 1, Tags: []string{"b", "a", "b"}}}, MakeVolume{"a", 4 * mib, []string{"a", "b"}}, nil},
		"all room that is left":                                {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 24 * mib}}, MakeVolume{"a", 24 * mib, nil}, nil},
		"more room than is left":                               {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 24*mib + 1}}, nil, sharedlun.ErrNoSpace},
		"more room than numbers have":                          {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 1<<63 - 1}}, nil, sharedlun.ErrNoSpace},
		"a volume that is there":                               {sharedlun.Change{Create: &sharedlun.Create{Name: "held", SizeBytes: 7 * mib, Tags: []string{"x=1"}}}, nil, nil},
		"a volume of another size":                             {sharedlun.Change{Create: &sharedlun.Create{Name: "held", SizeBytes: 9 * mib, Tags: []string{"x=1"}}}, nil, sharedlun.ErrExists},
		"a volume with other tags":                             {sharedlun.Change{Create: &sharedlun.Create{Name: "held", SizeBytes: 8 * mib}}, nil, sharedlun.ErrExists},
		"growing":                                              {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 9 * mib}}, ExtendVolume{idle, 12 * mib}, nil},
		"growing by all that is left":                          {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 32 * mib}}, ExtendVolume{idle, 32 * mib}, nil},
		"growing by more":                                      {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 33 * mib}}, nil, sharedlun.ErrNoSpace},
		"growing to what it has":                               {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 7 * mib}}, nil, nil},
		"it never shrinks":                                     {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 1}}, nil, nil},
		"growing what is not there":                            {sharedlun.Change{Grow: &sharedlun.Grow{Name: "gone", UUID: uuidA, SizeBytes: 1}}, nil, sharedlun.ErrNotFound},
		"removing":                                             {sharedlun.Change{Remove: &sharedlun.Remove{Name: "idle", UUID: uuidB}}, RemoveVolume{idle}, nil},
		"removing what is held":                                {sharedlun.Change{Remove: &sharedlun.Remove{Name: "held", UUID: uuidA}}, nil, sharedlun.ErrHeld},
		"removing another of the name":                         {sharedlun.Change{Remove: &sharedlun.Remove{Name: "idle", UUID: uuidA}}, nil, sharedlun.ErrExists},
		"removing what is gone":                                {sharedlun.Change{Remove: &sharedlun.Remove{Name: "gone", UUID: uuidA}}, nil, nil},
		"holding":                                              {sharedlun.Change{Hold: &sharedlun.Hold{Name: "idle", UUID: uuidB, Node: "n1"}}, Retag{idle, nil, []string{sharedlun.TagHeldBy + "n1"}}, nil},
		"holding again":                                        {sharedlun.Change{Hold: &sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n1"}}, nil, nil},
		"holding another node's":                               {sharedlun.Change{Hold: &sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n2"}}, nil, sharedlun.ErrExists},
		"holding another node's is told so":                    {sharedlun.Change{Hold: &sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n2"}}, nil, sharedlun.ErrHeld},
		"holding what is not there":                            {sharedlun.Change{Hold: &sharedlun.Hold{Name: "gone", UUID: uuidA, Node: "n2"}}, nil, sharedlun.ErrNotFound},
		"holding what is leaving":                              {sharedlun.Change{Hold: &sharedlun.Hold{Name: "leaving", UUID: uuidA, Node: "n1"}}, nil, sharedlun.ErrHeld},
		"leaving":                                              {sharedlun.Change{Leave: &sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n1"}}, Retag{held, nil, []string{sharedlun.TagLeaving}}, nil},
		"a new volume that a node holds":                       {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 1, Tags: []string{"b"}, HeldBy: "n1"}}, MakeVolume{"a", 4 * mib, []string{"b", sharedlun.TagHeldBy + "n1"}}, nil},
		"a volume that the node holds":                         {sharedlun.Change{Create: &sharedlun.Create{Name: "held", SizeBytes: 8 * mib, Tags: []string{"x=1"}, HeldBy: "n1"}}, nil, nil},
		"a volume that another node holds":                     {sharedlun.Change{Create: &sharedlun.Create{Name: "held", SizeBytes: 8 * mib, Tags: []string{"x=1"}, HeldBy: "n2"}}, nil, sharedlun.ErrExists},
		"a volume that nobody holds":                           {sharedlun.Change{Create: &sharedlun.Create{Name: "idle", SizeBytes: 8 * mib, HeldBy: "n1"}}, nil, sharedlun.ErrExists},
		"a volume that leaves the node":                        {sharedlun.Change{Create: &sharedlun.Create{Name: "leaving", SizeBytes: 4 * mib, HeldBy: "n1"}}, nil, sharedlun.ErrExists},
		"held by what is no node":                              {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 1, HeldBy: "n 1"}}, nil, sharedlun.ErrInvalid},
		"leaving, and ready":                                   {parting("held", uuidA, "n1", 8*mib), Retag{held, []string{sharedlun.TagReady + "4194304"}, []string{sharedlun.TagReady + "8388608", sharedlun.TagLeaving}}, nil},
		"leaving, and ready already":                           {parting("held", uuidA, "n1", 4*mib), Retag{held, nil, []string{sharedlun.TagLeaving}}, nil},
		"leaving already, and ready":                           {parting("leaving", uuidA, "n1", 4*mib), Retag{leaving, nil, []string{sharedlun.TagReady + "4194304"}}, nil},
		"leaving, and more than it has":                        {parting("held", uuidA, "n1", 8*mib+512), nil, sharedlun.ErrInvalid},
		"leaving another node, and ready":                      {parting("held", uuidA, "n2", 8*mib), nil, sharedlun.ErrNotFound},
		"leaving what is gone, and ready":                      {parting("gone", uuidA, "n1", 8*mib), nil, sharedlun.ErrNotFound},
		"leaving, and a part of a sector":                      {parting("held", uuidA, "n1", 511), nil, sharedlun.ErrInvalid},
		"leaving, and less than nothing":                       {parting("held", uuidA, "n1", -512), nil, sharedlun.ErrInvalid},
		"holding, and ready":                                   {sharedlun.Change{Hold: parting("idle", uuidB, "n1", 512).Leave}, nil, sharedlun.ErrInvalid},
		"leaving again":                                        {sharedlun.Change{Leave: &sharedlun.Hold{Name: "leaving", UUID: uuidA, Node: "n1"}}, nil, nil},
		"leaving another node":                                 {sharedlun.Change{Leave: &sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n2"}}, nil, nil},
		"leaving what is gone":                                 {sharedlun.Change{Leave: &sharedlun.Hold{Name: "gone", UUID: uuidA, Node: "n2"}}, nil, nil},
		"releasing what may be mapped":                         {sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n1"}}}, nil, sharedlun.ErrHeld},
		"releasing":                                            {sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "leaving", UUID: uuidA, Node: "n1"}}}, Retag{leaving, []string{sharedlun.TagHeldBy + "n1", sharedlun.TagLeaving}, nil}, nil},
		"releasing another node's":                             {sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "held", UUID: uuidA, Node: "n2"}}}, nil, nil},
		"releasing what nobody holds":                          {sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "idle", UUID: uuidB, Node: "n1"}}}, nil, nil},
		"releasing what is gone":                               {sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "gone", UUID: uuidA, Node: "n1"}}}, nil, nil},
		"releasing by a fence":                                 {sharedlun.Change{Release: fenced("leaving", uuidA, "boot-1")}, Retag{leaving, []string{sharedlun.TagHeldBy + "n1", sharedlun.TagLeaving}, []string{sharedlun.TagReader + "n1/boot-1"}}, nil},
		"releasing by a fence, in a boot that no tag can name": {sharedlun.Change{Release: fenced("leaving", uuidA, "boot 1")}, nil, sharedlun.ErrInvalid},
		"releasing by a fence, again":                          {sharedlun.Change{Release: fenced("read", uuidA, "boot-1")}, nil, nil},
		"removing what a fenced node may read":                 {sharedlun.Change{Remove: &sharedlun.Remove{Name: "read", UUID: uuidA}}, nil, sharedlun.ErrHeld},
		"removing what a node in the same boot may read":       {sharedlun.Change{Remove: &sharedlun.Remove{Name: "read", UUID: uuidA, Boots: boots("boot-1")}}, nil, sharedlun.ErrHeld},
		"removing what a node read in a boot of before":        {sharedlun.Change{Remove: &sharedlun.Remove{Name: "read", UUID: uuidA, Boots: boots("boot-2")}}, RemoveVolume{read}, nil},
		"removing, and a boot is not known":                    {sharedlun.Change{Remove: &sharedlun.Remove{Name: "read", UUID: uuidA, Boots: boots("")}}, nil, sharedlun.ErrInvalid},
		"forgetting a reader":                                  {sharedlun.Change{Forget: &sharedlun.Forget{Name: "read", UUID: uuidA, Boots: boots("boot-1")}}, Retag{read, []string{sharedlun.TagReader + "n1/boot-1"}, nil}, nil},
		"forgetting a reader of another boot":                  {sharedlun.Change{Forget: &sharedlun.Forget{Name: "read", UUID: uuidA, Boots: boots("boot-2")}}, nil, nil},
		"forgetting a reader of what is gone":                  {sharedlun.Change{Forget: &sharedlun.Forget{Name: "gone", UUID: uuidA, Boots: boots("boot-1")}}, nil, nil},
		"forgetting a reader of another of the name":           {sharedlun.Change{Forget: &sharedlun.Forget{Name: "read", UUID: uuidB, Boots: boots("boot-1")}}, nil, sharedlun.ErrExists},
		"forgetting, and a boot is not known":                  {sharedlun.Change{Forget: &sharedlun.Forget{Name: "read", UUID: uuidA, Boots: boots("")}}, nil, sharedlun.ErrInvalid},
		"growing another of the name":                          {sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidA, SizeBytes: 12 * mib}}, nil, sharedlun.ErrExists},
		"holding another of the name":                          {sharedlun.Change{Hold: &sharedlun.Hold{Name: "idle", UUID: uuidA, Node: "n1"}}, nil, sharedlun.ErrExists},
		"leaving another of the name":                          {sharedlun.Change{Leave: &sharedlun.Hold{Name: "held", UUID: uuidB, Node: "n1"}}, nil, sharedlun.ErrExists},
		"releasing another of the name":                        {sharedlun.Change{Release: fenced("leaving", uuidB, "")}, nil, sharedlun.ErrExists},
		"ready is another of the name":                         {sharedlun.Change{Ready: &sharedlun.Ready{Name: "held", UUID: uuidB, Bytes: 8 * mib}}, nil, sharedlun.ErrExists},
		"no UUID":                                              {sharedlun.Change{Hold: &sharedlun.Hold{Name: "idle", Node: "n1"}}, nil, sharedlun.ErrInvalid},
		"the first bytes are ready":                            {sharedlun.Change{Ready: &sharedlun.Ready{Name: "idle", UUID: uuidB, Bytes: 8 * mib}}, Retag{idle, nil, []string{sharedlun.TagReady + "8388608"}}, nil},
		"more bytes are ready":                                 {sharedlun.Change{Ready: &sharedlun.Ready{Name: "held", UUID: uuidA, Bytes: 8 * mib}}, Retag{held, []string{sharedlun.TagReady + "4194304"}, []string{sharedlun.TagReady + "8388608"}}, nil},
		"as many are ready":                                    {sharedlun.Change{Ready: &sharedlun.Ready{Name: "held", UUID: uuidA, Bytes: 4 * mib}}, nil, nil},
		"fewer are never ready":                                {sharedlun.Change{Ready: &sharedlun.Ready{Name: "held", UUID: uuidA, Bytes: 512}}, nil, nil},
		"more than it has":                                     {sharedlun.Change{Ready: &sharedlun.Ready{Name: "held", UUID: uuidA, Bytes: 8*mib + 512}}, nil, sharedlun.ErrInvalid},
		"ready is what is not there":                           {sharedlun.Change{Ready: &sharedlun.Ready{Name: "gone", UUID: uuidA, Bytes: 512}}, nil, sharedlun.ErrNotFound},
		"a part of a sector":                                   {sharedlun.Change{Ready: &sharedlun.Ready{Name: "gone", UUID: uuidA, Bytes: 511}}, nil, sharedlun.ErrInvalid},
		"making":                                               {sharedlun.Change{Making: mark("held", "n1")}, Retag{held, nil, []string{sharedlun.TagMaking + "n1"}}, nil},
		"making what another node began":                       {sharedlun.Change{Making: mark("begins", "n1")}, Retag{started, []string{sharedlun.TagMaking + "n2"}, []string{sharedlun.TagMaking + "n1"}}, nil},
		"making what was used":                                 {sharedlun.Change{Making: mark("seen", "n1")}, nil, sharedlun.ErrMisfit},
		"making what another node holds":                       {sharedlun.Change{Making: mark("held", "n2")}, nil, sharedlun.ErrHeld},
		"making what is leaving":                               {sharedlun.Change{Making: mark("leaving", "n1")}, nil, sharedlun.ErrHeld},
		"making what is not there":                             {sharedlun.Change{Making: mark("gone", "n1")}, nil, sharedlun.ErrNotFound},
		"used":                                                 {sharedlun.Change{Used: mark("begins", "n1")}, Retag{started, []string{sharedlun.TagMaking + "n2"}, []string{sharedlun.TagUsed}}, nil},
		"used as a raw device":                                 {sharedlun.Change{Used: mark("held", "n1")}, Retag{held, nil, []string{sharedlun.TagUsed}}, nil},
		"used already":                                         {sharedlun.Change{Used: mark("seen", "n1")}, nil, nil},
		"used by a node that has it not":                       {sharedlun.Change{Used: mark("held", "n2")}, nil, sharedlun.ErrHeld},
		"used, and leaving":                                    {sharedlun.Change{Used: mark("leaving", "n1")}, nil, sharedlun.ErrHeld},
		"taking over what the writer has":                      {sharedlun.Change{TakeOver: true}, nil, nil},
		"nothing at all":                                       {sharedlun.Change{}, nil, sharedlun.ErrInvalid},
		"a mark among the controller's tags":                   {sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 1, Tags: []string{sharedlun.TagHeldBy + "n1"}}}, nil, sharedlun.ErrInvalid},
		"a path in the place of a name":                        {sharedlun.Change{Grow: &sharedlun.Grow{Name: "../x", UUID: uuidA, SizeBytes: 1}}, nil, sharedlun.ErrInvalid},
		"two changes, of which one is ignored":                 {sharedlun.Change{TakeOver: true, Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 1}}, nil, sharedlun.ErrInvalid},
	} {
		o := Order{Mandate: sharedlun.Mandate{Epoch: 5}, Sequence: 40, Change: c.change}
		step, err := Change(group, 5, o)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if diff := cmp.Diff(c.want, step); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// Decided on another sequence number, nothing is changed, and no other refusal is told.
		o.Sequence = 39
		step, err = Change(group, 5, o)
		holds, bad := c.want == nil && c.err == nil, errors.Is(c.err, sharedlun.ErrInvalid) && !tooMuch(c.change)
		if step != nil || !holds && !bad && !errors.Is(err, sharedlun.ErrMoved) || holds && err != nil {
			t.Errorf("%s, on another sequence number: %v, %v", name, step, err)
		}
	}
}

func TestChange_epochs(t *testing.T) {
	for name, c := range map[string]struct {
		promised, epoch uint64
		takeOver        bool
		err             error
		says            string
	}{
		"the group's writer":                            {5, 5, false, nil, ""},
		"a writer of before":                            {0, 4, false, sharedlun.ErrOldEpoch, "epoch 5"},
		"a writer of before takes over":                 {0, 4, true, sharedlun.ErrOldEpoch, "epoch 5"},
		"a later writer":                                {0, 6, false, sharedlun.ErrOldEpoch, "take it over first"},
		"a later writer takes over":                     {0, 6, true, nil, ""},
		"a later writer takes over, some epochs later":  {6, 9, true, nil, ""},
		"the group's writer, of a node that gave it up": {6, 5, false, sharedlun.ErrOldEpoch, "promised"},
		"a later writer, of a node that promised so":    {7, 6, true, sharedlun.ErrOldEpoch, "promised"},
		"a node that promised to leave it to itself":    {6, 6, true, nil, ""},
		"no epoch": {0, 0, false, sharedlun.ErrInvalid, "no epoch"},
		"taking over what is taken over, after a crash":  {5, 5, true, nil, ""},
		"an older API server's writer cannot go back":    {0, 1, true, sharedlun.ErrOldEpoch, "epoch 5"},
		"one that gave it up to somebody does not write": {99, 98, true, sharedlun.ErrOldEpoch, "epoch 99"},
	} {
		change := sharedlun.Change{Grow: &sharedlun.Grow{Name: "idle", UUID: uuidB, SizeBytes: 12 * mib}}
		if c.takeOver {
			change = sharedlun.Change{TakeOver: true}
		}
		step, err := Change(group, c.promised, Order{Mandate: sharedlun.Mandate{Epoch: c.epoch}, Sequence: 40, Change: change})
		if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) || err != nil && step != nil {
			t.Errorf("%s: %v, %v", name, step, err)
		}
		if err == nil && c.takeOver && c.epoch > 5 && step != (SetEpoch{c.epoch}) {
			t.Errorf("%s: %v", name, step)
		}
	}
}

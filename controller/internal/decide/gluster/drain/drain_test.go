package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

const gi = 1 << 30

// brick is one that runs, and has a third of its filesystem in use.
func brick(id, peer string) gluster.Brick {
	return gluster.Brick{ID: id, Peer: peer, Path: "/bricks/" + id, Online: gluster.Yes, Size: &gluster.Size{Capacity: 90 * gi, Used: 30 * gi}}
}

// scene has four nodes in four zones. The volume v has a copy on a, b and c; a is being emptied, and d has room.
func scene() *Facts {
	f := &Facts{Now: now, Started: now.Add(-24 * time.Hour)}
	peers, devices := []gluster.Peer{}, []gluster.Device{}
	for _, n := range []string{"a", "b", "c", "d"} {
		f.Nodes = append(f.Nodes, Node{Name: n, Peer: n + "-id", State: nodestate.Online})
		peers = append(peers, gluster.Peer{ID: n + "-id", Zone: "z" + n, Online: true})
		devices = append(devices, gluster.Device{Peer: n + "-id", Path: "/dev/vdb", Enabled: n != "a", Free: 200 * gi, Total: 300 * gi})
	}
	f.Nodes[0].State, f.Nodes[0].Condemned = nodestate.Failed, now.Add(-time.Hour)
	volumes := []gluster.Volume{{
		Name: "v", ID: "v-id", Started: true, SelfHeal: gluster.Yes, Heal: &gluster.Heal{},
		Subvolumes: []gluster.Subvolume{{Kind: gluster.Replicate, Bricks: []gluster.Brick{brick("1", "a-id"), brick("2", "b-id"), brick("3", "c-id")}}},
	}}
	f.Pool = gluster.Pool{Peers: &peers, Volumes: &volumes, Snapshots: &[]gluster.Volume{}, Devices: &devices, Named: &[]gluster.Named{}}
	return f
}

func (f *Facts) volume() *gluster.Volume { return &(*f.Pool.Volumes)[0] }
func (f *Facts) brick(i int) *gluster.Brick {
	return &f.volume().Subvolumes[0].Bricks[i]
}

// String is a decision in a few words.
func (d Decision) String() string {
	out := string(d.Action)
	if d.Action == Ask {
		out += " " + string(d.Move.Request)
		if d.Peer != "" {
			out += " of " + d.Peer
		}
		if len(d.Limit) > 0 {
			out += " on " + strings.Join(d.Limit, ",")
		}
		if d.Move.Repeated > 0 {
			out += fmt.Sprintf(" again %d", d.Move.Repeated)
		}
	}
	if d.Action == Wait {
		out += " " + d.Reason
		if d.Status == metav1.ConditionUnknown {
			out += "?"
		}
	}
	if d.Action == Record {
		switch m := d.Move; {
		case m.Whole:
			out += " whole"
		case m.CleanSince != nil:
			out += " clean"
		case m.HealAsked != nil:
			out += " unclean"
		default:
			out += " " + m.Successor
		}
	}
	if d.Wake > 0 {
		out += " after " + d.Wake.String()
	}
	return out
}

type edit func(*Facts)

func apply(edits ...edit) Facts {
	f := scene()
	for _, e := range edits {
		e(f)
	}
	return *f
}

func TestDecide_next(t *testing.T) {
	zone := func(peer int, z string) edit { return func(f *Facts) { (*f.Pool.Peers)[peer].Zone = z } }
	offline := func(peer int) edit { return func(f *Facts) { (*f.Pool.Peers)[peer].Online = false } }
	state := func(node int, s nodestate.State) edit { return func(f *Facts) { f.Nodes[node].State = s } }
	kind := func(k gluster.Kind) edit { return func(f *Facts) { f.volume().Subvolumes[0].Kind = k } }
	for name, row := range map[string]struct {
		edits []edit
		want  string
	}{
		"a brick is moved, to the only peer that is in another zone": {nil, "Ask ReplaceBrick of a-id on d-id"},
		"the node is not being emptied":                              {[]edit{state(0, nodestate.Online)}, "Wait StepWaits?"},
		"no peers":                                                   {[]edit{func(f *Facts) { f.Pool.Peers = nil }}, "Wait PoolUnknown?"},
		"no volumes":                                                 {[]edit{func(f *Facts) { f.Pool.Volumes = nil }}, "Wait PoolUnknown?"},
		"no snapshots":                                               {[]edit{func(f *Facts) { f.Pool.Snapshots = nil }}, "Wait PoolUnknown?"},
		"no devices":                                                 {[]edit{func(f *Facts) { f.Pool.Devices = nil }}, "Wait PoolUnknown?"},
		"no PersistentVolumes":                                       {[]edit{func(f *Facts) { f.Pool.Named = nil }}, "Wait PoolUnknown?"},
		"a PersistentVolume names a volume that is not there": {[]edit{func(f *Facts) {
			f.Pool.Named = &[]gluster.Named{{PersistentVolume: "pv", Volume: "gone"}}
		}}, "Wait PoolUnknown?"},
		"a brick without a peer": {[]edit{func(f *Facts) { f.brick(1).Peer = "" }}, "Wait PoolUnknown?"},
		"a volume without bricks": {[]edit{func(f *Facts) {
			*f.Pool.Volumes = append(*f.Pool.Volumes, gluster.Volume{Name: "cut"})
		}}, "Wait PoolUnknown?"},
		"the peers' IDs in capital letters": {[]edit{func(f *Facts) { f.brick(0).Peer = "A-ID" }}, "Ask ReplaceBrick of A-ID on d-id"},

		"the server is down":                 {[]edit{offline(0)}, "Wait PeerDown"},
		"the server is no peer":              {[]edit{func(f *Facts) { *f.Pool.Peers = (*f.Pool.Peers)[1:] }}, "Wait PeerDown"},
		"another server of the volume is":    {[]edit{offline(1)}, "Wait BrickDown"},
		"another server has no part in it":   {[]edit{offline(3)}, "Wait ReplacementZoneMissing"},
		"a brick does not run":               {[]edit{func(f *Facts) { f.brick(2).Online = gluster.No }}, "Wait BrickDown"},
		"nobody knows whether one runs":      {[]edit{func(f *Facts) { f.brick(2).Online = gluster.Unknown }}, "Wait PoolUnknown?"},
		"the old brick itself does not run":  {[]edit{func(f *Facts) { f.brick(0).Online = gluster.No }}, "Wait BrickDown"},
		"the volume is stopped":              {[]edit{func(f *Facts) { f.volume().Started = false }}, "Wait VolumeStopped"},
		"files are to be healed":             {[]edit{func(f *Facts) { f.volume().Heal.Pending = 1 }}, "Wait Healing"},
		"files contradict each other":        {[]edit{func(f *Facts) { f.volume().Heal.SplitBrain = 1 }}, "Wait SplitBrain"},
		"another brick is as good as empty":  {[]edit{func(f *Facts) { f.brick(1).Size.Used = gi }}, "Wait Healing"},
		"nobody knows how full another is":   {[]edit{func(f *Facts) { f.brick(1).Size = nil }}, "Wait PoolUnknown?"},
		"it is as good as empty itself":      {[]edit{func(f *Facts) { f.brick(0).Size.Used = gi }}, "Ask ReplaceBrick of a-id on d-id"},
		"nobody knows what is to be healed":  {[]edit{func(f *Facts) { f.volume().Heal = nil }}, "Wait PoolUnknown?"},
		"healing is off":                     {[]edit{func(f *Facts) { f.volume().SelfHeal = gluster.No }}, "Ask EnableSelfHeal"},
		"nobody knows whether healing is on": {[]edit{func(f *Facts) { f.volume().SelfHeal = gluster.Unknown }}, "Wait PoolUnknown?"},

		"no zone is left":                             {[]edit{zone(3, "zb")}, "Wait ReplacementZoneMissing"},
		"not even the node's own":                     {[]edit{zone(3, "za")}, "Wait ReplacementZoneMissing"},
		"the spare is condemned":                      {[]edit{state(3, nodestate.Failed), func(f *Facts) { f.Nodes[3].Condemned = now; (*f.Pool.Devices)[3].Enabled = false }}, "Wait ReplacementZoneMissing"},
		"the spare is offline":                        {[]edit{state(3, nodestate.Offline)}, "Wait ReplacementZoneMissing"},
		"the spare is somebody's":                     {[]edit{func(f *Facts) { f.Nodes[3].External = true }}, "Wait ReplacementZoneMissing"},
		"the spare's device is off":                   {[]edit{func(f *Facts) { (*f.Pool.Devices)[3].Enabled = false }}, "Wait ReplacementZoneMissing"},
		"the spare is small":                          {[]edit{func(f *Facts) { (*f.Pool.Devices)[3].Free = 91 * gi }}, "Wait ReplacementTooSmall"},
		"the spare's device lies":                     {[]edit{func(f *Facts) { (*f.Pool.Devices)[3].Total = gi }}, "Wait ReplacementTooSmall"},
		"the brick's size is secret":                  {[]edit{func(f *Facts) { f.brick(0).Size = nil }}, "Wait PoolUnknown?"},
		"a stranger's peer is no place":               {[]edit{func(f *Facts) { f.Nodes = f.Nodes[:3] }}, "Wait ReplacementZoneMissing"},
		"the node's own device is enabled":            {[]edit{func(f *Facts) { (*f.Pool.Devices)[0].Enabled = true }}, "Wait DrainWaits"},
		"one under maintenance has a device enabled":  {[]edit{state(3, nodestate.Quiesced)}, "Wait DrainWaits"},
		"one under maintenance has a brick of it":     {[]edit{state(1, nodestate.Quiesced)}, "Wait DrainWaits"},
		"the device of a peer that left is no matter": {[]edit{func(f *Facts) { *f.Pool.Devices = append(*f.Pool.Devices, gluster.Device{Peer: "gone", Enabled: true}) }}, "Ask ReplaceBrick of a-id on d-id"},

		"one copy":                        {[]edit{kind(gluster.Distribute)}, "Wait DistributeOnly"},
		"a kind that nobody knows":        {[]edit{kind(gluster.OtherKind)}, "Wait DistributeOnly"},
		"one copy and arbiters":           {[]edit{func(f *Facts) { f.brick(1).Arbiter, f.brick(2).Arbiter = true, true }}, "Wait DistributeOnly"},
		"two copies and an arbiter":       {[]edit{func(f *Facts) { f.brick(2).Arbiter = true }}, "Ask ReplaceBrick of a-id on d-id"},
		"the arbiter":                     {[]edit{func(f *Facts) { f.brick(0).Arbiter = true }}, "Ask ReplaceBrick of a-id on d-id"},
		"dispersed":                       {[]edit{kind(gluster.Disperse)}, "Ask ReplaceBrick of a-id on d-id"},
		"one copy, and its server is off": {[]edit{kind(gluster.Distribute), offline(0)}, "Wait PeerDown"},
		"one that cannot be moved holds up no other": {[]edit{func(f *Facts) {
			*f.Pool.Volumes = append(*f.Pool.Volumes, gluster.Volume{Name: "a-first", Started: true, Subvolumes: []gluster.Subvolume{{Kind: gluster.Distribute, Bricks: []gluster.Brick{brick("9", "a-id")}}}})
		}}, "Ask ReplaceBrick of a-id on d-id"},
		"what passes is shown before what stays": {[]edit{func(f *Facts) {
			f.volume().Heal.Pending = 3
			*f.Pool.Volumes = append(*f.Pool.Volumes, gluster.Volume{Name: "a-first", Started: true, Subvolumes: []gluster.Subvolume{{Kind: gluster.Distribute, Bricks: []gluster.Brick{brick("9", "a-id")}}}})
		}}, "Wait Healing"},

		"nothing is left":    {[]edit{func(f *Facts) { f.brick(0).Peer = "d-id" }}, "Rest"},
		"a snapshot is left": {[]edit{func(f *Facts) { *f.Pool.Snapshots = *f.Pool.Volumes; f.Pool.Volumes = &[]gluster.Volume{} }}, "Wait SnapshotHolds"},

		"a pod is being replaced":                {[]edit{func(f *Facts) { f.Restarting = "pool-etcd-0-0" }}, "Wait DrainWaits"},
		"another brick is being moved":           {[]edit{moving(1, nil)}, "Wait DrainWaits"},
		"another brick was moved":                {[]edit{moving(1, func(m *v1alpha1.GlusterMove) { m.Whole = true })}, "Ask ReplaceBrick of a-id on d-id"},
		"another's record, whose server is down": {[]edit{moving(3, func(m *v1alpha1.GlusterMove) { m.Volume = "w"; m.Asked.Time = now.Add(-time.Hour) }), offline(3)}, "Wait ReplacementZoneMissing"},
		"another node was deleted before": {[]edit{func(f *Facts) {
			f.Nodes[2].State, f.Nodes[2].Condemned = nodestate.Failed, now.Add(-2*time.Hour)
			(*f.Pool.Devices)[2].Enabled = false
		}}, "Wait DrainWaits"},
		"and cannot be emptied as its server is off": {[]edit{func(f *Facts) {
			f.Nodes[1].State, f.Nodes[1].Condemned = nodestate.Failed, now.Add(-2*time.Hour)
			(*f.Pool.Devices)[1].Enabled = false
			f.brick(1).Peer = "b2-id"
			*f.Pool.Peers = append(*f.Pool.Peers, gluster.Peer{ID: "b2-id", Zone: "zb", Online: true})
			(*f.Pool.Peers)[1].Online = false
		}}, "Ask ReplaceBrick of a-id on d-id"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide("a", apply(row.edits...))
			if d.String() != row.want {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
			if d.Message == "" || d.Reason == "" || d.Status == "" {
				t.Errorf("says too little: %+v", d)
			}
		})
	}
}

// moving gives a node the record of a brick that it moves.
func moving(node int, change func(*v1alpha1.GlusterMove)) edit {
	return func(f *Facts) {
		m := &v1alpha1.GlusterMove{
			Brick: "1", Volume: "v", Path: "/bricks/1", Request: v1alpha1.GlusterReplaceBrick, Asked: metav1.Time{Time: now.Add(-time.Minute)}, Answered: true,
		}
		if change != nil {
			change(m)
		}
		f.Nodes[node].Move = m
	}
}

func TestDecide_resumes(t *testing.T) {
	type move = v1alpha1.GlusterMove
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	moved := func(f *Facts) {
		*f.brick(0) = brick("4", "d-id")
	}
	unhealing := func(f *Facts) { f.volume().SelfHeal = gluster.No }
	filling := func(m *move) {
		m.Successor, m.Request, m.HealAsked = "4", v1alpha1.GlusterHealVolume, ago(20*time.Minute)
	}
	clean := func(m *move) { filling(m); m.CleanSince = ago(Settled) }
	both := func(all ...func(*move)) func(*move) {
		return func(m *move) {
			for _, one := range all {
				one(m)
			}
		}
	}
	said := func(then func(*move)) func(*move) { return func(m *move) { then(m); m.Failure = mkfs } }
	lost := func(d time.Duration) func(*move) { return func(m *move) { m.Answered, m.Asked = false, *ago(d) } }
	for name, row := range map[string]struct {
		move  func(*move)
		edits []edit
		want  string
	}{
		"no answer, and it may still come":                   {lost(time.Minute), nil, "Wait AnswerLost? after 9m0s"},
		"no answer, of a leader before":                      {lost(time.Hour), []edit{func(f *Facts) { f.Started = now.Add(-time.Minute) }}, "Wait AnswerLost? after 9m0s"},
		"no answer, and a clock that was set back":           {lost(-time.Hour), nil, "Wait AnswerLost? after 10m0s"},
		"no answer, and it was done":                         {lost(time.Minute), []edit{moved}, "Record 4"},
		"no answer for long: it is looked up, and asked for": {lost(LostAnswer), nil, "Ask ReplaceBrick of a-id on d-id again 1"},
		"it failed, and may be done even so":                 {said(lost(time.Minute)), nil, "Wait RequestFailed? after 9m0s"},
		"it failed, and was done":                            {said(lost(time.Minute)), []edit{moved}, "Record 4"},
		"it failed long ago":                                 {said(lost(LostAnswer)), nil, "Ask ReplaceBrick of a-id on d-id again 1"},
		"refused with a reason":                              {said(func(m *move) { m.Asked = *ago(30 * time.Second) }), nil, "Wait RequestFailed after 30s"},
		"but not while the lock may be held":                 {lost(LostAnswer), []edit{func(f *Facts) { f.volume().Heal = nil }}, "Wait PoolUnknown?"},
		"nor while a brick does not run":                     {lost(LostAnswer), []edit{func(f *Facts) { f.brick(1).Online = gluster.No }}, "Wait BrickDown"},
		"refused a moment ago":                               {func(m *move) { m.Asked = *ago(30 * time.Second) }, nil, "Wait BrickMoving after 30s"},
		"refused a while ago":                                {func(m *move) { m.Asked = *ago(Backoff) }, nil, "Ask ReplaceBrick of a-id on d-id again 1"},
		"refused often":                                      {func(m *move) { m.Asked, m.Repeated = *ago(15 * time.Minute), 9 }, nil, "Wait BrickMoving after 1m0s"},
		"refused, and asked for often":                       {func(m *move) { m.Asked, m.Repeated = *ago(16 * time.Minute), 9 }, nil, "Ask ReplaceBrick of a-id on d-id again 10"},
		"healing was enabled":                                {func(m *move) { m.Request = v1alpha1.GlusterEnableSelfHeal }, nil, "Ask ReplaceBrick of a-id on d-id"},
		"healing was enabled after many refusals":            {func(m *move) { m.Request, m.Repeated = v1alpha1.GlusterEnableSelfHeal, 9 }, nil, "Ask ReplaceBrick of a-id on d-id"},
		"enabling it was refused a moment ago":               {func(m *move) { m.Request, m.Asked = v1alpha1.GlusterEnableSelfHeal, *ago(30 * time.Second) }, []edit{unhealing}, "Wait BrickMoving after 30s"},
		"enabling it was refused twice":                      {func(m *move) { m.Request, m.Repeated = v1alpha1.GlusterEnableSelfHeal, 1 }, []edit{unhealing}, "Wait BrickMoving after 1m0s"},
		"enabling it was refused a while ago":                {func(m *move) { m.Request = v1alpha1.GlusterEnableSelfHeal }, []edit{unhealing}, "Ask EnableSelfHeal again 1"},
		"replacing was refused, and healing is off now":      {func(m *move) { m.Asked, m.Repeated = *ago(time.Second), 9 }, []edit{unhealing}, "Ask EnableSelfHeal"},
		"healing was enabled, without an answer": {
			both(lost(time.Minute), func(m *move) { m.Request = v1alpha1.GlusterEnableSelfHeal }), nil,
			"Wait AnswerLost? after 9m0s",
		},
		"a pod is being replaced":         {func(m *move) { m.Successor = "4" }, []edit{moved, func(f *Facts) { f.Restarting = "pool-etcd-0-0" }}, "Ask HealVolume"},
		"the server is down now":          {nil, []edit{func(f *Facts) { (*f.Pool.Peers)[0].Online = false }}, "Wait PeerDown"},
		"the volume is gone":              {lost(time.Minute), []edit{func(f *Facts) { f.Pool.Volumes = &[]gluster.Volume{} }}, "Record whole"},
		"nobody knows whether it is":      {nil, []edit{func(f *Facts) { f.Pool.Volumes = nil }}, "Wait PoolUnknown?"},
		"nobody looked meanwhile":         {clean, []edit{moved, func(f *Facts) { f.Pool.Volumes = nil }}, "Record unclean"},
		"it has fewer bricks":             {nil, []edit{func(f *Facts) { f.volume().Subvolumes[0].Bricks = f.volume().Subvolumes[0].Bricks[1:] }, func(f *Facts) { f.Nodes[0].Move.Position = 2 }}, "Wait PoolUnknown?"},
		"the brick is back":               {func(m *move) { m.Successor = "4" }, nil, "Wait BrickReturned"},
		"the successor was replaced, too": {clean, []edit{func(f *Facts) { *f.brick(0) = brick("5", "d-id") }}, "Record 5"},

		"a heal is asked for":          {func(m *move) { m.Successor = "4" }, []edit{moved}, "Ask HealVolume"},
		"which was refused":            {both(filling, func(m *move) { m.HealAsked, m.Asked = nil, *ago(30 * time.Second) }), []edit{moved}, "Wait Healing after 30s"},
		"which was refused, and why":   {said(both(filling, func(m *move) { m.HealAsked, m.Asked = nil, *ago(30 * time.Second) })), []edit{moved}, "Wait RequestFailed after 30s"},
		"and is asked for again":       {both(filling, func(m *move) { m.HealAsked = nil }), []edit{moved}, "Ask HealVolume again 1"},
		"refused twice":                {both(filling, func(m *move) { m.HealAsked, m.Asked, m.Repeated = nil, *ago(time.Minute), 1 }), []edit{moved}, "Wait Healing after 1m0s"},
		"which had no answer":          {both(filling, lost(time.Minute), func(m *move) { m.HealAsked = nil }), []edit{moved}, "Wait AnswerLost? after 9m0s"},
		"no heal while healing is off": {func(m *move) { m.Successor = "4" }, []edit{moved, func(f *Facts) { f.volume().SelfHeal = gluster.No }}, "Ask EnableSelfHeal"},
		"enabling it is refused": {func(m *move) {
			m.Successor, m.Request, m.Asked = "4", v1alpha1.GlusterEnableSelfHeal, *ago(time.Second)
		}, []edit{moved, unhealing}, "Wait BrickMoving after 59s"},
		"nothing was to be healed before":         {both(clean, func(m *move) { m.Request, m.Asked = v1alpha1.GlusterEnableSelfHeal, *ago(time.Second) }), []edit{moved, unhealing}, "Record unclean after 59s"},
		"the refusals of a replace are no matter": {func(m *move) { m.Successor, m.Repeated = "4", 9 }, []edit{moved}, "Ask HealVolume"},
		"no heal while the new brick is down":     {func(m *move) { m.Successor = "4" }, []edit{moved, func(f *Facts) { f.brick(0).Online = gluster.No }}, "Wait BrickDown"},
		"the old server is needed no more":        {filling, []edit{moved, func(f *Facts) { (*f.Pool.Peers)[0].Online = false }}, "Record clean"},
		"maintenance of another does not matter":  {filling, []edit{moved, func(f *Facts) { f.Nodes[1].State = nodestate.Quiesced }}, "Record clean"},
		"files are to be healed":                  {filling, []edit{moved, func(f *Facts) { f.volume().Heal.Pending = 7 }}, "Wait Healing"},
		"files are to be healed again":            {clean, []edit{moved, func(f *Facts) { f.volume().Heal.Pending = 7 }}, "Record unclean"},
		"nobody knows any more":                   {clean, []edit{moved, func(f *Facts) { f.volume().Heal = nil }}, "Record unclean"},
		"nothing is to be healed":                 {filling, []edit{moved}, "Record clean"},
		"not for long enough":                     {both(clean, func(m *move) { m.CleanSince = ago(time.Minute) }), []edit{moved}, "Wait Healing after 4m0s"},
		"the leader was not there":                {clean, []edit{moved, func(f *Facts) { f.Started = now.Add(-time.Minute) }}, "Wait Healing after 4m0s"},
		"a clock that was set back":               {both(clean, func(m *move) { m.CleanSince = ago(-time.Hour) }), []edit{moved}, "Record clean"},
		"the new brick has the data":              {clean, []edit{moved}, "Record whole"},
		"a larger one does":                       {clean, []edit{moved, func(f *Facts) { f.brick(0).Size = &gluster.Size{Capacity: 95 * gi, Used: 31 * gi} }}, "Record whole"},
		"it is as good as empty":                  {clean, []edit{moved, func(f *Facts) { f.brick(0).Size.Used = gi }}, "Wait Healing after 1m0s"},
		"it is so for an hour":                    {both(clean, func(m *move) { m.HealAsked = ago(HealAgain) }), []edit{moved, func(f *Facts) { f.brick(0).Size.Used = gi }}, "Ask HealVolume again 1"},
		"nobody knows how much it has":            {clean, []edit{moved, func(f *Facts) { f.brick(0).Size = nil }}, "Wait Healing after 1m0s"},
		"nor how much the others have":            {clean, []edit{moved, func(f *Facts) { f.brick(1).Size = nil }}, "Wait Healing after 1m0s"},
		"an arbiter has no content":               {clean, []edit{moved, func(f *Facts) { f.brick(0).Arbiter, f.brick(0).Size.Used = true, gi }}, "Record whole"},
		"the next one after that":                 {func(m *move) { m.Whole = true }, nil, "Ask ReplaceBrick of a-id on d-id"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide("a", apply(append([]edit{moving(0, row.move)}, row.edits...)...))
			if d.String() != row.want {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
			if d.Message == "" || d.Reason == "" || d.Status == "" {
				t.Errorf("says too little: %+v", d)
			}
			if d.Move != nil && d.Move.Failure != "" {
				t.Errorf("what was said to a request before stays: %+v", d.Move)
			}
			if d.Reason == v1alpha1.ReasonRequestFailed && (!strings.Contains(d.Message, mkfs) || !strings.Contains(d.Message, "asked again at "+now.Add(d.Wake).Format(time.RFC3339))) {
				t.Errorf("what was said, or when it is asked again, is not told: %s", d.Message)
			}
		})
	}
}

// mkfs is what glusterd2 says when a brick would be smaller than an XFS may be.
const mkfs = "HTTP status 500: a txn step failed: Filesystem must be larger than 300MB"

// TestAnswered: a heal counts from when it was asked for, and only if it was taken.
func TestAnswered(t *testing.T) {
	asked := metav1.Time{Time: now}
	for request, wantHeal := range map[v1alpha1.GlusterRequest]bool{v1alpha1.GlusterHealVolume: true, v1alpha1.GlusterReplaceBrick: false, v1alpha1.GlusterEnableSelfHeal: false} {
		m := v1alpha1.GlusterMove{Request: request, Asked: asked}
		if got := Answered(m, true); !got.Answered || (got.HealAsked != nil) != wantHeal {
			t.Errorf("%s was done: %+v", request, got)
		}
		if got := Answered(m, false); !got.Answered || got.HealAsked != nil {
			t.Errorf("%s was refused: %+v", request, got)
		}
	}
}

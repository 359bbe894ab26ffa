package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/template"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func pool() *v1alpha1.GlusterCluster {
	return &v1alpha1.GlusterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "pool"},
		Spec: v1alpha1.GlusterClusterSpec{NodeTemplates: []v1alpha1.GlusterNodeTemplate{
			{Name: "east", Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast", Capacity: resource.MustParse("1Ti")}},
			{Name: "west", Zone: "far", Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast", Capacity: resource.MustParse("1Ti")}},
		}},
	}
}

func made(name, from string) *v1alpha1.GlusterNode {
	return &v1alpha1.GlusterNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name, UID: types.UID(name), Annotations: map[string]string{v1alpha1.AnnotationTemplate: from}},
		Spec:       v1alpha1.GlusterNodeSpec{Cluster: "pool"}, Status: v1alpha1.GlusterNodeStatus{State: "online", Joined: true},
	}
}

func TestGetNodes(t *testing.T) {
	byHand, external, other, elsewhere := made("h", ""), made("x", "east"), made("o", "east"), made("e", "east")
	byHand.Annotations = nil
	external.Spec.External = &v1alpha1.GlusterExternal{}
	other.Spec.Cluster, elsewhere.Namespace = "other", "there"
	n := GetNodes(pool(), []*v1alpha1.GlusterNode{made("b", "east"), made("a", "east"), made("c", "gone"), byHand, external, other, elsewhere})
	names := func(all []*v1alpha1.GlusterNode) string {
		var out []string
		for _, one := range all {
			out = append(out, one.Name)
		}
		return strings.Join(out, " ")
	}
	got := map[string]string{"orphaned": names(n.Orphaned), "by hand": names(n.HandMade)}
	for t, all := range n.ByTemplate {
		got[t] = names(all)
	}
	if diff := cmp.Diff(map[string]string{"east": "a b", "west": "", "orphaned": "c", "by hand": "h x"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestNewNode: what is made of a template is what the API takes (A15).
func TestNewNode(t *testing.T) {
	c := pool()
	for i, want := range []struct{ name, zone string }{{"pool-east-0badcafe", "east"}, {"pool-west-0badcafe", "far"}} {
		tmpl := c.Spec.NodeTemplates[i]
		n := NewNode(c, tmpl, "0badcafe")
		if n.Name != want.name || string(n.Spec.Zone) != want.zone || n.Namespace != "here" || n.Spec.Cluster != "pool" || len(n.OwnerReferences) > 0 || Drifted(n, tmpl) != "" || Revert(n, tmpl) != nil {
			t.Errorf("%+v", n)
		}
		if got := GetNodes(c, []*v1alpha1.GlusterNode{n}).ByTemplate[tmpl.Name]; len(got) != 1 {
			t.Errorf("%s is no node of its template", n.Name)
		}
		claim := NewClaim(n, tmpl)
		if claim.Name != n.Spec.Storage[0].PVCName || *claim.Spec.VolumeMode != corev1.PersistentVolumeBlock || claim.Spec.Resources.Requests.Storage().String() != "1Ti" || len(claim.OwnerReferences) > 0 {
			t.Errorf("%+v", claim)
		}
	}
	c.Name = strings.Repeat("c", 24)
	c.Spec.NodeTemplates[0].Name = strings.Repeat("t", 18)
	if n := NewNode(c, c.Spec.NodeTemplates[0], "0badcafe"); len(n.Name) != 52 {
		t.Errorf("the longest name has %d characters, and the API takes 52", len(n.Name))
	}
}

func TestRevert(t *testing.T) {
	c := pool()
	tmpl := c.Spec.NodeTemplates[0]
	tmpl.NodeAffinity = &corev1.NodeAffinity{}
	n := NewNode(c, tmpl, "1")
	n.Spec.DesiredState, n.Spec.Lost, n.Spec.Move = v1alpha1.GlusterDisabled, "x", &v1alpha1.GlusterMove{Brick: "b"}
	if Revert(n, tmpl) != nil {
		t.Error("what a person says about a node is reverted")
	}
	n.Spec.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}
	spec := Revert(n, tmpl)
	if spec == nil || len(spec.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 || spec.DesiredState != v1alpha1.GlusterDisabled || spec.Lost != "x" || spec.Move == nil {
		t.Errorf("%+v", spec)
	}
	moved := tmpl
	moved.Zone = "elsewhere"
	if Drifted(n, moved) == "" {
		t.Error("another zone is no drift")
	}
	n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{PVCName: "more"})
	if Drifted(n, tmpl) == "" {
		t.Error("more storage is no drift")
	}
}

func TestOptions(t *testing.T) {
	have := []Option{
		{"cluster.brick-multiplex", "off", "off"},
		{"cluster.localtime-logging", "on", "off"},
		{"cluster.max-bricks-per-process", "5", "250"},
		{"cluster.shared-storage", "banana", "off"},
		{"cluster.op-version", "1", "50000"},
	}
	want := map[string]v1alpha1.GlusterOptionValue{"cluster.brick-multiplex": "on", "cluster.max-bricks-per-process": "5", "block-hosting-volume-size": "5GiB"}
	set, unknown := Options(want, have)
	if diff := cmp.Diff(map[string]string{"cluster.brick-multiplex": "on", "cluster.localtime-logging": "off"}, set); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"block-hosting-volume-size"}, unknown); diff != "" {
		t.Error(diff)
	}
}

func TestDelete(t *testing.T) {
	empty := gluster.Pool{Volumes: &[]gluster.Volume{}, Snapshots: &[]gluster.Volume{}, Named: &[]gluster.Named{}}
	a, b, going, left := made("a", "east"), made("b", "east"), made("c", "east"), made("d", "east")
	a.CreationTimestamp = metav1.Time{Time: time.Unix(2, 0)}
	going.DeletionTimestamp, left.DeletionTimestamp = &metav1.Time{}, &metav1.Time{Time: time.Unix(1, 0)}
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	left.Annotations[v1alpha1.AnnotationPeerLeft] = "d"
	nodes := func(all ...*v1alpha1.GlusterNode) []*v1alpha1.GlusterNode { return all }
	with := func(volumes, snapshots *[]gluster.Volume) gluster.Pool {
		return gluster.Pool{Volumes: volumes, Snapshots: snapshots, Named: empty.Named}
	}
	one := &[]gluster.Volume{{Name: "v"}}
	putBack, uncounted := empty, empty
	putBack.Named, uncounted.Named = &[]gluster.Named{{PersistentVolume: "pv", Volume: "v"}}, nil
	for name, row := range map[string]struct {
		d    Deletion
		want string
	}{
		"A21: volumes are claimed":               {Deletion{Pool: empty, Claimed: 2, Nodes: nodes(a)}, "Hold VolumesExist"},
		"A21: nobody could count":                {Deletion{Pool: empty, Claimed: -1}, "Hold PoolUnknown"},
		"A21: the pool has a volume":             {Deletion{Pool: with(one, empty.Snapshots), Nodes: nodes(a)}, "Hold VolumesExist"},
		"A21: or a snapshot":                     {Deletion{Pool: with(empty.Volumes, one), Nodes: nodes(a)}, "Hold VolumesExist"},
		"A21: or does not say":                   {Deletion{Pool: with(empty.Volumes, nil), Nodes: nodes(a)}, "Hold PoolUnknown"},
		"a PersistentVolume names another one":   {Deletion{Pool: putBack, Nodes: nodes(a), Drivers: gluster.No}, "Hold PoolUnknown"},
		"nobody could list PersistentVolumes":    {Deletion{Pool: uncounted, Nodes: nodes(a), Drivers: gluster.No}, "Hold PoolUnknown"},
		"A21: a volume, after the drivers":       {Deletion{Pool: with(one, empty.Snapshots), Nodes: nodes(a), Drivers: gluster.No}, "Hold VolumesExist"},
		"nobody knows of the drivers":            {Deletion{Pool: empty, Nodes: nodes(a)}, "Hold Deleting"},
		"the drivers go first":                   {Deletion{Pool: empty, Nodes: nodes(a), Drivers: gluster.Yes}, "DeleteDrivers Deleting"},
		"then a node, the youngest":              {Deletion{Pool: empty, Nodes: nodes(b, a), Drivers: gluster.No}, "DeleteNode Deleting a"},
		"one at a time":                          {Deletion{Pool: empty, Nodes: nodes(b, going), Drivers: gluster.No}, "Hold Deleting"},
		"the last server is stopped":             {Deletion{Nodes: nodes(left), Drivers: gluster.No, Etcd: gluster.Yes}, "Hold Deleting"},
		"there never was a pool":                 {Deletion{Nodes: nodes(a), Drivers: gluster.No, NeverBegan: true}, "DeleteNode Deleting a"},
		"nor was there, but there are claims":    {Deletion{Nodes: nodes(a), Claimed: 1, NeverBegan: true}, "Hold VolumesExist"},
		"etcd goes last":                         {Deletion{Drivers: gluster.No, Etcd: gluster.Yes}, "DeleteEtcd Deleting"},
		"etcd was asked to go":                   {Deletion{Drivers: gluster.No, Etcd: gluster.Yes, Ending: &gluster.Ending{}}, "Hold Deleting"},
		"nobody knows of etcd":                   {Deletion{Drivers: gluster.No}, "Hold Deleting"},
		"all is gone":                            {Deletion{Drivers: gluster.No, Etcd: gluster.No}, "DropFinalizer Deleting"},
		"a pool without nodes, and with drivers": {Deletion{Drivers: gluster.Yes, Etcd: gluster.Yes}, "DeleteDrivers Deleting"},
	} {
		d := row.d.Delete()
		if got := strings.TrimSpace(string(d.Step) + " " + d.Reason + " " + d.Node); got != row.want || d.Message == "" || d.Status == "" {
			t.Errorf("%s: got %q, want %q: %s", name, got, row.want, d.Message)
		}
	}
}

// TestSentences: hundreds of nodes make no condition that the API server refuses.
func TestSentences(t *testing.T) {
	o := Observed{Cluster: pool()}
	for i := range 500 {
		o.Nodes = append(o.Nodes, made(fmt.Sprintf("n%03d", i), strings.Repeat("gone", 100)))
	}
	message := o.sized().Message
	if len(message) > 32768 || !strings.Contains(message, "Node n009 stays") || !strings.Contains(message, "The same is so of 490 more.") {
		t.Errorf("%d bytes: %.200s", len(message), message)
	}
}

func TestSummarize(t *testing.T) {
	fine := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "Fine."}
	bad := metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, Message: "Not fine."}
	sized := template.Decision{Sized: true, Reason: v1alpha1.ReasonTemplateSized, Message: "Fine."}
	in := func(name, state string) *v1alpha1.GlusterNode {
		n := made(name, "east")
		n.Status.State = v1alpha1.MemberState(state)
		return n
	}
	for name, row := range map[string]struct {
		edit func(*Observed)
		want string
	}{
		"all is well":                     {func(*Observed) {}, "TTTTTT running"},
		"the spec is wrong":               {func(o *Observed) { o.Spec = bad }, "FTTTTF failed"},
		"nobody has looked at the spec":   {func(o *Observed) { o.Spec = metav1.Condition{} }, "UTTTTU warning"},
		"etcd has no quorum":              {func(o *Observed) { o.Etcd = bad }, "TFTTTF failed"},
		"what is wrong outranks the rest": {func(o *Observed) { o.Spec, o.Drivers = metav1.Condition{}, bad }, "UTTFTF warning"},
		"no node was ever a member":       {func(o *Observed) { o.Nodes[0].Status.Joined, o.Etcd = false, bad }, "TFTTTF creating"},
		"no nodes":                        {func(o *Observed) { o.Nodes = nil }, "TTFTTF creating"},
		"a node is down":                  {func(o *Observed) { o.Nodes = append(o.Nodes, in("n2", "offline")) }, "TTFTTF warning"},
		"nobody speaks for the pool":      {func(o *Observed) { o.Silence = "No server answers." }, "TTUTTU warning"},
		"nobody speaks, and a node is down": {func(o *Observed) {
			o.Silence, o.Nodes = "No server answers.", append(o.Nodes, in("n2", "offline"))
		}, "TTUTTU warning"},
		"a node is under maintenance":         {func(o *Observed) { o.Nodes = append(o.Nodes, in("n2", "quiesced")) }, "TTTTTT running"},
		"a node is being emptied":             {func(o *Observed) { o.Nodes = append(o.Nodes, in("n2", "failed")) }, "TTTTTT running"},
		"a node is new":                       {func(o *Observed) { o.Nodes = append(o.Nodes, in("n2", "")) }, "TTUTTU warning"},
		"a template is not sized":             {func(o *Observed) { o.Sizes["west"] = template.Decision{Reason: "CannotGrow", Message: "No."} }, "TTTTFT warning"},
		"nobody has looked at a template":     {func(o *Observed) { delete(o.Sizes, "west") }, "TTTTUT warning"},
		"a template is gone, its node is not": {func(o *Observed) { o.Nodes = append(o.Nodes, made("n2", "gone")) }, "TTTTTT running"},
		"replication, on which nothing acts":  {func(o *Observed) { o.Cluster.Spec.Replication = &v1alpha1.GlusterReplication{} }, "TTTTTFT running"},
		"it is being deleted":                 {func(o *Observed) { o.Deleting = &Decision{Reason: "Deleting", Message: "Waits."} }, "TTTTTF deleting"},
	} {
		o := Observed{Cluster: pool(), Nodes: []*v1alpha1.GlusterNode{in("n1", "online")}, Spec: fine, Etcd: fine, Drivers: fine, Sizes: map[string]template.Decision{"east": sized, "west": sized}}
		row.edit(&o)
		s := Summarize(o)
		got := ""
		for _, c := range s.Conditions {
			got += string(c.Status)[:1]
			if c.Type == "" || c.Reason == "" || c.Message == "" {
				t.Errorf("%s: says too little: %+v", name, c)
			}
		}
		if got += " " + string(s.State); got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

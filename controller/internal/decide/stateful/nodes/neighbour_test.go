package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// zones are six nodes in three zones; n6 is in none, and n5 is silent.
func zones() Nodes {
	all := Nodes{}
	for name, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": "c", "n5": "c", "n6": ""} {
		all[name] = Node{Labels: map[string]string{"host": name}}
		if zone != "" {
			all[name].Labels["zone"] = zone
		}
	}
	silent := Of(node(corev1.ConditionUnknown))
	silent.Labels = all["n5"].Labels
	all["n5"] = silent
	return all
}

// on makes a pod of an app on a node: "db@n1", or "db@n1 terminating".
func on(text string) *corev1.Pod {
	what, rest, _ := strings.Cut(text, " ")
	app, at, _ := strings.Cut(what, "@")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": app, "hash": "1"}}, Spec: corev1.PodSpec{NodeName: at}}
	switch rest {
	case "terminating":
		p.DeletionTimestamp = &metav1.Time{}
		p.DeletionTimestamp.Time = p.DeletionTimestamp.AddDate(2000, 0, 0)
	case "ended":
		p.Status.Phase = corev1.PodSucceeded
	case "elsewhere":
		p.Namespace = "other"
	}
	return p
}

func term(key, app string, edits ...func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	for _, edit := range edits {
		edit(&t)
	}
	return t
}

func near(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
}

func apart(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
}

func spread(key string, skew int32, edits ...func(*corev1.TopologySpreadConstraint)) corev1.PodSpec {
	c := corev1.TopologySpreadConstraint{
		TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
	}
	for _, edit := range edits {
		edit(&c)
	}
	return corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c}}
}

// TestTakers_neighbours: what a pod requires of others is counted as the scheduler counts it.
func TestTakers_neighbours(t *testing.T) {
	everywhere := func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }
	named := func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"other"} }
	same := func(t *corev1.PodAffinityTerm) { t.MatchLabelKeys = []string{"hash"} }
	different := func(t *corev1.PodAffinityTerm) { t.MismatchLabelKeys = []string{"hash"} }
	teams := func(t *corev1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	}
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	inZone := func(s corev1.PodSpec, zone string) corev1.PodSpec {
		s.NodeSelector = map[string]string{"zone": zone}
		return s
	}
	for name, c := range map[string]struct {
		pod    corev1.PodSpec
		others string
		want   string
	}{
		"near one that is there":                         {near(term("zone", "web")), "web@n1", "n1 n2"},
		"near one that is nowhere":                       {near(term("zone", "web")), "db@n1", ""},
		"near one that ended":                            {near(term("zone", "web")), "web@n1 ended", ""},
		"near one that is ending":                        {near(term("zone", "web")), "web@n1 terminating", "n1 n2"},
		"near one of another namespace":                  {near(term("zone", "web")), "web@n1 elsewhere", ""},
		"near one of any namespace":                      {near(term("zone", "web", everywhere)), "web@n1 elsewhere", "n1 n2"},
		"near one of a named namespace":                  {near(term("zone", "web", named)), "web@n1 elsewhere,web@n3", "n1 n2"},
		"near one of namespaces that are not known":      {near(term("zone", "web", teams)), "web@n1", ""},
		"near one on a silent node":                      {near(term("zone", "web")), "web@n5", "n4"},
		"near its own kind, which is nowhere":            {near(term("zone", "db")), "", "n1 n2 n3 n4"},
		"near its own kind, which is somewhere":          {near(term("zone", "db")), "db@n3", "n3"},
		"near its own kind, on a node without the label": {near(term("zone", "db")), "db@n6", "n1 n2 n3 n4"},
		"near two that are there together":               {near(term("zone", "web"), term("host", "web")), "web@n1", "n1"},
		"near two of which no one is both":               {near(term("zone", "web"), term("zone", "cache")), "web@n1,cache@n1", ""},
		"near one of its own hash":                       {near(term("zone", "web", same)), "web@n1", "n1 n2"},
		"near one of another hash":                       {near(term("zone", "web", different)), "web@n1", ""},
		"apart from one of its own hash":                 {apart(term("host", "web", same)), "web@n1", "n2 n3 n4 n6"},
		"apart from those of another hash":               {apart(term("host", "web", different)), "web@n1", "n1 n2 n3 n4 n6"},
		"apart from namespaces that are not known":       {apart(term("host", "web", teams)), "", ""},
		"apart from one that ended":                      {apart(term("zone", "db")), "db@n1 ended", "n1 n2 n3 n4 n6"},
		"spread over zones, two have one":                {spread("zone", 1), "db@n1,db@n3", "n4"},
		"spread over zones, and the third is the silent": {spread("zone", 1), "db@n1,db@n3,db@n5", "n1 n2 n3 n4"},
		"spread over zones, by two":                      {spread("zone", 2), "db@n1,db@n3", "n1 n2 n3 n4"},
		"one that is ending does not count":              {spread("zone", 1), "db@n1 terminating,db@n3", "n1 n2 n4"},
		"one of another namespace does not count":        {spread("zone", 1), "db@n1 elsewhere,db@n3", "n1 n2 n4"},
		"spread over nodes, the silent one stays empty":  {spread("host", 1), "db@n1,db@n2,db@n3,db@n4,db@n6", ""},
		"spread over nodes, only those it may go to":     {inZone(spread("host", 1), "a"), "db@n1", "n2"},
		"spread over nodes, all of them count": {
			inZone(spread("host", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }), "a"),
			"db@n1,db@n2", "",
		},
		"with fewer zones than wanted": {
			spread("zone", 1, func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(4)) }),
			"db@n1,db@n3,db@n4", "",
		},
		"a wish is no rule": {spread("zone", 1, func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }), "db@n1,db@n3", "n1 n2 n3 n4 n6"},
		"a spread of other pods": {spread("zone", 1, func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}), "web@n1,web@n1", "n3 n4"},
		"a spread that nobody understands": {spread("zone", 1, func(c *corev1.TopologySpreadConstraint) {
			c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
		}), "", ""},
		"taints count where they are honored": {spread("host", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }), "db@n1,db@n2,db@n3,db@n4,db@n6", ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db", "hash": "1"}}, Spec: c.pod}
		var others []*corev1.Pod
		for _, text := range strings.FieldsFunc(c.others, func(r rune) bool { return r == ',' }) {
			others = append(others, on(text))
		}
		others = append(others, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db"}}})
		takers, _ := zones().Takers(p, others)
		if got := strings.Join(slices.Sorted(maps.Keys(takers)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTakers_keptAway: pods of others keep a replica from every node of a domain, and say so.
func TestTakers_keptAway(t *testing.T) {
	teams := func(t *corev1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	}
	for name, c := range map[string]struct {
		other string
		has   corev1.PodSpec
		want  string
	}{
		"from its zone":                       {"web@n1", apart(term("zone", "db")), "n3 n4 n6"},
		"from its node":                       {"web@n1", apart(term("host", "db")), "n2 n3 n4 n6"},
		"others than this one":                {"web@n1", apart(term("zone", "cache")), "n1 n2 n3 n4 n6"},
		"by the second of its rules":          {"web@n1", apart(term("zone", "cache"), term("zone", "db")), "n3 n4 n6"},
		"by a rule that nobody understands":   {"web@n1", apart(term("zone", "db", teams)), "n3 n4 n6"},
		"a node without the label is in none": {"web@n6", apart(term("zone", "db")), "n1 n2 n3 n4 n6"},
		"nobody, when it has ended":           {"web@n1 ended", apart(term("zone", "db")), "n1 n2 n3 n4 n6"},
		"nobody of another namespace":         {"web@n1 elsewhere", apart(term("zone", "db")), "n1 n2 n3 n4 n6"},
		"nobody, by a wish":                   {"web@n1", corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}}, "n1 n2 n3 n4 n6"},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db"}}}
		other := on(c.other)
		other.Name, other.Spec.Affinity = "other", c.has.Affinity
		takers, why := zones().Takers(p, []*corev1.Pod{other})
		if got := strings.Join(slices.Sorted(maps.Keys(takers)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(takers) < 5 && why["n1"] != "is kept away by the pod anti-affinity of pod ns/other" {
			t.Errorf("%s: %v", name, why)
		}
	}
}

// TestTakers_closedZone: a cordoned node takes part in a spread, unless taints are honored.
func TestTakers_closedZone(t *testing.T) {
	all := Nodes{"n1": {Labels: map[string]string{"zone": "a"}}, "n2": {Labels: map[string]string{"zone": "b"}, Closed: true}}
	honor := corev1.NodeInclusionPolicyHonor
	for want, spec := range map[int]corev1.PodSpec{
		0: spread("zone", 1),
		1: spread("zone", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }),
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db"}}, Spec: spec}
		if got, _ := all.Takers(p, []*corev1.Pod{on("db@n1")}); len(got) != want {
			t.Errorf("%v", got)
		}
	}
}

func TestNeighbours(t *testing.T) {
	spec := near(term("zone", "web", func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"x", "y"} }))
	spec.Affinity.PodAntiAffinity = apart(term("host", "db"), term("host", "all", func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} })).Affinity.PodAntiAffinity
	spec.TopologySpreadConstraints = spread("zone", 1).TopologySpreadConstraints
	queries, ok := Neighbours(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: spec})
	var got []string
	for _, q := range queries {
		got = append(got, fmt.Sprintf("%s:%s", q.Namespace, q.Selector))
	}
	if want := []string{"ns:", "x:app=web", "y:app=web", ":app=all"}; !ok || !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if queries, ok := Neighbours(&corev1.Pod{}); !ok || len(queries) != 1 {
		t.Errorf("it has no rules, and others may: %v", queries)
	}
}

func TestUnfit(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, q := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if q != "" {
				out[name] = resource.MustParse(q)
			}
		}
		return out
	}
	pod := func(cpu, memory string) *corev1.Pod {
		p := on("db@n1")
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(cpu, memory)}}}
		return p
	}
	has := func(l corev1.ResourceList, pods string) Node {
		l[corev1.ResourcePods] = resource.MustParse(pods)
		return Node{Labels: map[string]string{"host": "n1"}, Allocatable: l}
	}
	ended := pod("4", "8Gi")
	ended.Status.Phase = corev1.PodFailed
	init := pod("100m", "")
	init.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: list("3", "")}}}
	gpu := pod("", "")
	gpu.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.org/gpu": resource.MustParse("1")}
	alone := pod("", "")
	alone.Name = "lonely"
	alone.Spec.Affinity = apart(term("host", "db")).Affinity
	strange := pod("", "")
	strange.Name = "lonely"
	strange.Spec.Affinity = apart(term("host", "db", func(t *corev1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	})).Affinity
	grown := pod("500m", "")
	grown.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: list("1500m", ""), Resources: &corev1.ResourceRequirements{Requests: list("1500m", "")}}}
	onPort := func(port corev1.ContainerPort, edits ...func(*corev1.Pod)) *corev1.Pod {
		p := pod("", "")
		p.Name = "served"
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{port}
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	stays := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "s", Ports: p.Spec.Containers[0].Ports, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		p.Spec.Containers[0].Ports = nil
	}
	hosted := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	over := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	claims := pod("", "")
	claims.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	port, udp := corev1.ContainerPort{HostPort: 80}, corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolUDP}
	at := func(ip string) corev1.ContainerPort { return corev1.ContainerPort{HostPort: 80, HostIP: ip} }
	const taken = "has pod ns/served, which has the host port 80 that the template asks for"
	for name, c := range map[string]struct {
		node  Node
		pod   *corev1.Pod
		there []*corev1.Pod
		want  string
	}{
		"there is room":                     {has(list("2", "4Gi"), "9"), pod("1", "2Gi"), []*corev1.Pod{pod("1", "2Gi")}, ""},
		"too little CPU":                    {has(list("2", "4Gi"), "9"), pod("1500m", ""), []*corev1.Pod{pod("1", "")}, "is short of cpu: 1500m asked for, and 1 left"},
		"too little memory":                 {has(list("2", "4Gi"), "9"), pod("", "3Gi"), []*corev1.Pod{pod("", "2Gi")}, "is short of memory: 3Gi asked for, and 2Gi left"},
		"too many pods":                     {has(list("2", "4Gi"), "1"), pod("", ""), []*corev1.Pod{pod("", "")}, "is short of pods: 1 asked for, and 0 left"},
		"one that ended takes no room":      {has(list("2", "4Gi"), "1"), pod("1", "1Gi"), []*corev1.Pod{ended}, ""},
		"it needs more to begin":            {has(list("2", "4Gi"), "9"), init, nil, "is short of cpu: 3 asked for, and 2 left"},
		"one there was given more":          {has(list("2", "4Gi"), "9"), pod("1", ""), []*corev1.Pod{grown}, "is short of cpu: 1 asked for, and 500m left"},
		"nobody tells of what it needs":     {has(list("2", "4Gi"), "9"), gpu, nil, "does not tell that it has example.org/gpu"},
		"the node tells nothing":            {Node{}, pod("", ""), nil, "does not tell that it has pods"},
		"one there wants to be alone":       {has(list("2", "4Gi"), "9"), pod("", ""), []*corev1.Pod{alone}, "has pod ns/lonely, whose anti-affinity keeps it away"},
		"one there wants others to be away": {has(list("2", "4Gi"), "9"), on("web@n1"), []*corev1.Pod{alone}, ""},
		"a port that is taken":              {has(list("2", "4Gi"), "9"), onPort(port), []*corev1.Pod{onPort(port)}, taken},
		"a port that stays taken":           {has(list("2", "4Gi"), "9"), onPort(port), []*corev1.Pod{onPort(port, stays)}, taken},
		"a port of the node's network":      {has(list("2", "4Gi"), "9"), onPort(port), []*corev1.Pod{onPort(corev1.ContainerPort{ContainerPort: 80}, hosted)}, taken},
		"a port inside of pods":             {has(list("2", "4Gi"), "9"), onPort(corev1.ContainerPort{ContainerPort: 80}), []*corev1.Pod{onPort(corev1.ContainerPort{ContainerPort: 80})}, ""},
		"a port of another protocol":        {has(list("2", "4Gi"), "9"), onPort(udp), []*corev1.Pod{onPort(port)}, ""},
		"a port of another address":         {has(list("2", "4Gi"), "9"), onPort(at("10.0.0.1")), []*corev1.Pod{onPort(at("10.0.0.2"))}, ""},
		"a port of all addresses":           {has(list("2", "4Gi"), "9"), onPort(at("10.0.0.1")), []*corev1.Pod{onPort(at("0.0.0.0"))}, taken},
		"a port that is free again":         {has(list("2", "4Gi"), "9"), onPort(port), []*corev1.Pod{onPort(port, over)}, ""},
		"what nobody looks at":              {has(list("2", "4Gi"), "9"), claims, nil, "is not known to have what the ResourceClaims of the template ask for: they are not looked at"},
		"one there wants what nobody knows": {has(list("2", "4Gi"), "9"), on("web@n1"), []*corev1.Pod{strange}, "has pod ns/lonely, whose anti-affinity keeps it away"},
	} {
		if got := c.node.Unfit(c.pod, c.there); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestShortest: the node is named that comes closest, and not one that the replica is on.
func TestShortest(t *testing.T) {
	on := map[string]bool{"n1": true, "n2": false}
	short := map[string]string{"n1": "is short of cpu", "n4": "is short of memory", "n5": "is short of cpu"}
	takers := Nodes{"n1": {}, "n3": {}, "n4": {}, "n5": {}}
	why := map[string]string{"n1": "is cordoned", "n2": "has a taint"}
	for want, got := range map[string]string{
		"Node n4 is short of memory.":                       Shortest(on, short, takers, why),
		"Node n3 is not known to have room for its claims.": Shortest(on, nil, takers, why),
		"Node n2 has a taint.":                              Shortest(on, nil, nil, why),
		"There is no node beside its own.":                  Shortest(on, nil, Nodes{"n1": {}}, nil),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

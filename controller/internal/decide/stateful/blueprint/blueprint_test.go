package blueprint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const podSpec = `{"containers":[{"name":"main","image":"image:1"}],
  "volumes":[{"name":"data","emptyDir":{}},{"name":"conf","configMap":{"name":"conf"}}]}`

func example() *v1alpha1.StatefulCluster {
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "u1"}}
	c.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": "db"}
	c.Spec.ServiceName = "svc"
	c.Spec.Template.Metadata = v1alpha1.PodMetadata{
		Labels:      map[string]v1alpha1.LabelValue{"app": "db", "tier": "back"},
		Annotations: map[string]string{"note": "kept"}, Finalizers: []string{"example.org/kept"},
	}
	c.Spec.Template.Spec = runtime.RawExtension{Raw: []byte(podSpec)}
	for _, name := range []string{"data", "log"} {
		c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, v1alpha1.ClaimTemplate{
			Metadata: v1alpha1.ClaimMetadata{Name: name, Labels: map[string]v1alpha1.LabelValue{"kind": "claim"}, Annotations: map[string]string{"a": "b"}},
			Spec:     runtime.RawExtension{Raw: []byte(`{"storageClassName":"fast","accessModes":["ReadWriteOnce"]}`)},
		})
	}
	return c
}

func TestPod(t *testing.T) {
	b, faults := Of(example())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	p := b.Pod("00ff")
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "db-00ff",
			Labels: map[string]string{
				"app": "db", "tier": "back", v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelIdentity: "00ff",
				appsv1.ControllerRevisionHashLabelKey: b.Revision,
			},
			Annotations: map[string]string{"note": "kept", v1alpha1.AnnotationTemplateBase: b.Base}, Finalizers: []string{"example.org/kept"},
			OwnerReferences: []metav1.OwnerReference{b.Owner()},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "image:1"}}, RestartPolicy: corev1.RestartPolicyAlways,
			Hostname: "db-00ff", Subdomain: "svc",
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			},
			Volumes: []corev1.Volume{
				{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db-data-00ff"}}},
				{Name: "log", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db-log-00ff"}}},
			},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	p.Spec.Containers[0].Image, p.Labels["app"] = "changed", "changed"
	if again := b.Pod("00ff"); again.Spec.Containers[0].Image != "image:1" || again.Labels["app"] != "db" {
		t.Error("two pods share their parts")
	}
}

func TestClaims(t *testing.T) {
	c := example()
	b, _ := Of(c)
	claims := b.Claims("00ff")
	if len(claims) != 2 || claims[0].Name != "db-data-00ff" || claims[1].Name != "db-log-00ff" {
		t.Fatalf("%+v", claims)
	}
	want := map[string]string{
		"app": "db", "kind": "claim", v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelStatefulClusterUID: "u1",
		v1alpha1.LabelIdentity: "00ff",
	}
	if diff := cmp.Diff(want, claims[0].Labels); diff != "" {
		t.Error(diff)
	}
	if claims[0].Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaNew || claims[1].Annotations[v1alpha1.AnnotationClaims] != "data,log" {
		t.Errorf("on record is %v", claims[0].Annotations)
	}
	if c.Spec.VolumeClaimTemplates[0].Metadata.Annotations[v1alpha1.AnnotationReplicaState] != "" {
		t.Error("the template is written to")
	}
	if !metav1.IsControlledBy(claims[0], c) || claims[0].Annotations["a"] != "b" || *claims[0].Spec.StorageClassName != "fast" {
		t.Errorf("%+v", claims[0])
	}
	c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: v1alpha1.RetainClaims}
	if claims := b.Claims("00ff"); len(claims[0].OwnerReferences) != 0 {
		t.Error("a claim that is to be kept is owned")
	}
}

func TestRevision(t *testing.T) {
	of := func(edit func(*v1alpha1.StatefulCluster)) string {
		c := example()
		edit(c)
		b, _ := Of(c)
		return b.Revision
	}
	base := of(func(*v1alpha1.StatefulCluster) {})
	same := map[string]func(*v1alpha1.StatefulCluster){
		"written with other spaces": func(c *v1alpha1.StatefulCluster) {
			c.Spec.Template.Spec.Raw = []byte(strings.ReplaceAll(podSpec, ":", " : "))
			c.Spec.Template.Spec.Raw = []byte(strings.ReplaceAll(string(c.Spec.Template.Spec.Raw), "image : 1", "image:1"))
		},
		"more replicas": func(c *v1alpha1.StatefulCluster) { n := int32(9); c.Spec.Replicas = &n },
	}
	for name, edit := range same {
		if of(edit) != base {
			t.Errorf("%s: another revision", name)
		}
	}
	for name, edit := range map[string]func(*v1alpha1.StatefulCluster){
		"another image": func(c *v1alpha1.StatefulCluster) {
			c.Spec.Template.Spec.Raw = []byte(strings.ReplaceAll(podSpec, "image:1", "image:2"))
		},
		"another label":      func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Metadata.Labels["x"] = "y" },
		"another annotation": func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Metadata.Annotations["x"] = "y" },
		"no JSON":            func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec.Raw = []byte("{") },
	} {
		if of(edit) == base {
			t.Errorf("%s: the same revision", name)
		}
	}
	if len(base) != 10 {
		t.Errorf("revision %q", base)
	}
}

func TestOf_faults(t *testing.T) {
	minus := int32(-1)
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.StatefulCluster)
		want string
	}{
		"nothing is wrong":          {func(*v1alpha1.StatefulCluster) {}, ""},
		"no template":               {func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec.Raw = nil }, "spec.template.spec"},
		"a template that is a list": {func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec.Raw = []byte("[]") }, "spec.template.spec: it is not an object"},
		"a field in a container": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.Template.Spec.Raw = []byte(`{"containers":[{"imagee":"x"}]}`)
		}, `unknown field "containers[0].imagee"`},
		"a number that is a word":     {func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec.Raw = []byte(`{"priority":"high"}`) }, "priority cannot be a string"},
		"a claim with a field":        {func(c *v1alpha1.StatefulCluster) { c.Spec.VolumeClaimTemplates[1].Spec.Raw = []byte(`{"class":"x"}`) }, "spec.volumeClaimTemplates[1].spec"},
		"a claim named twice":         {func(c *v1alpha1.StatefulCluster) { c.Spec.VolumeClaimTemplates[1].Metadata.Name = "data" }, `spec.volumeClaimTemplates[1].metadata.name: "data" is used twice`},
		"pods that end":               {func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec.Raw = []byte(`{"restartPolicy":"OnFailure"}`) }, "spec.template.spec.restartPolicy"},
		"no selector":                 {func(c *v1alpha1.StatefulCluster) { c.Spec.Selector = v1alpha1.Selector{} }, "spec.selector: it is empty"},
		"a selector of another label": {func(c *v1alpha1.StatefulCluster) { c.Spec.Selector.MatchLabels["x"] = "y" }, "spec.selector: it does not match"},
		"fewer than none":             {func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = &minus }, "spec.replicas: -1 is negative"},
		"a grace of nothing": {func(c *v1alpha1.StatefulCluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "0s"}
		}, v1alpha1.AnnotationNodeGrace},
		"no replica may be changed": {func(c *v1alpha1.StatefulCluster) {
			zero := intstr.FromInt32(0)
			c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxSurge: &zero, MaxUnavailable: &zero}
		}, "spec.updateStrategy.rollingUpdate.maxSurge: with maxUnavailable 0"},
		"a percentage that is a word": {func(c *v1alpha1.StatefulCluster) {
			word := intstr.FromString("many")
			c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: &word}
		}, "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"two faults": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.Selector.MatchLabels["x"] = "y"
			c.Spec.Replicas = &minus
		}, "spec.replicas: -1 is negative; spec.selector: it does not match spec.template.metadata.labels."},
	} {
		t.Run(name, func(t *testing.T) {
			c := example()
			tc.edit(c)
			_, faults := Of(c)
			if got := Describe(faults); tc.want == "" && len(faults) > 0 || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOf_defaults(t *testing.T) {
	c := example()
	b, _ := Of(c)
	if b.Desired() != 1 || b.Grace != 5*time.Minute || b.NodeGrace != 5*time.Minute ||
		b.WhenDeleted() != v1alpha1.DeleteClaims || b.Policy() != (replica.Policy{History: -1}) {
		t.Errorf("%+v", b)
	}
	n := int32(4)
	c.Spec.Replicas = &n
	c.Annotations = map[string]string{v1alpha1.AnnotationStartUpGrace: "30s", v1alpha1.AnnotationNodeGrace: "1h"}
	c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: v1alpha1.RetainClaims, WhenScaled: v1alpha1.DeleteClaims, WhenReplaced: v1alpha1.RetainClaims}
	c.Spec.OrphanHistoryLimit, c.Spec.OrphanMaxAgeSeconds = new(int32(3)), new(int64(60))
	b, _ = Of(c)
	if b.Desired() != 4 || b.Grace != 30*time.Second || b.NodeGrace != time.Hour ||
		b.WhenDeleted() != v1alpha1.RetainClaims || b.Policy() != (replica.Policy{Scaled: true, History: 3, MaxAge: time.Minute}) {
		t.Errorf("%+v", b)
	}
}

func TestWithoutUse(t *testing.T) {
	n, m := int32(1), intstr.FromInt32(1)
	spec := v1alpha1.StatefulClusterSpec{
		Ordinals: &v1alpha1.Ordinals{}, PodManagementPolicy: "Parallel", RevisionHistoryLimit: &n,
		UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdateOptions{Partition: &n, MaxUnavailable: &m}},
	}
	if got := WithoutUse(&spec); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if got := WithoutUse(&v1alpha1.StatefulClusterSpec{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestShape holds that spec and status have every field of those of a StatefulSet, so that a manifest can be carried over. A field that a
// newer version of Kubernetes has must be thought about here.
func TestShape(t *testing.T) {
	var ours, theirs []string
	for _, pair := range [][2]any{
		{v1alpha1.StatefulClusterSpec{}, appsv1.StatefulSetSpec{}},
		{v1alpha1.StatefulClusterStatus{}, appsv1.StatefulSetStatus{}},
		{v1alpha1.UpdateStrategy{}, appsv1.StatefulSetUpdateStrategy{}},
		{v1alpha1.RollingUpdateOptions{}, appsv1.RollingUpdateStatefulSetStrategy{}},
		{v1alpha1.ClaimRetention{}, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}},
		{v1alpha1.Ordinals{}, appsv1.StatefulSetOrdinals{}},
		{v1alpha1.Selector{}, metav1.LabelSelector{}},
		{v1alpha1.PodTemplate{}, corev1.PodTemplateSpec{}},
	} {
		ours, theirs = names(pair[0]), names(pair[1])
		for _, n := range theirs {
			if !slices.Contains(ours, n) {
				t.Errorf("%T has no field %s of %T", pair[0], n, pair[1])
			}
		}
	}
}

func names(v any) []string {
	var out []string
	for f := range reflect.TypeOf(v).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// TestCarryOver reads a StatefulSet's spec as one of ours, and finds everything again.
func TestCarryOver(t *testing.T) {
	n := int32(3)
	set := appsv1.StatefulSetSpec{
		Replicas: &n, ServiceName: "svc", MinReadySeconds: 7, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
		},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}},
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	if err := json.Unmarshal(text, &c.Spec); err != nil {
		t.Fatal(err)
	}
	b, faults := Of(c)
	if len(faults) > 0 {
		t.Fatal(Describe(faults))
	}
	got := fmt.Sprintln(b.Desired(), b.Pod("x").Spec.Containers[0].Image, b.Claims("x")[0].Spec.VolumeName, c.Spec.MinReadySeconds, b.Selector)
	if got != "3 image:1 v 7 app=db\n" {
		t.Error(got)
	}
}

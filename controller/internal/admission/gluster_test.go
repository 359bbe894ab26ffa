package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// quantity returns a size.
func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// glusterCluster is a good one.
func glusterCluster() *v1alpha1.GlusterCluster {
	return &v1alpha1.GlusterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"},
		Spec: v1alpha1.GlusterClusterSpec{
			Drivers: []v1alpha1.GlusterDriver{v1alpha1.GlusterFuse},
			Images: v1alpha1.GlusterImages{
				Glusterd2: "example.com/glusterd2:1", Etcd: "example.com/etcd:1",
				Drivers: map[string]v1alpha1.GlusterImage{"gluster-fuse": "example.com/fuse:1"},
			},
			NodeTemplates: []v1alpha1.GlusterNodeTemplate{{
				Name: "east", Threshold: v1alpha1.GlusterThreshold{Nodes: new(int32(3))},
				Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast", Capacity: *quantity("1Ti")},
			}},
		},
	}
}

// glusterNode is a good one.
func glusterNode() *v1alpha1.GlusterNode {
	return &v1alpha1.GlusterNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool-east-1"},
		Spec:       v1alpha1.GlusterNodeSpec{Cluster: "pool", Storage: []v1alpha1.GlusterStorage{{PVCName: "disk"}}},
	}
}

// verdict checks whether a request was refused with a message, or taken if the message is empty.
func verdict(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		must(t, err)
		return
	}
	denied(t, err, want)
}

// TestGluster_thresholds has the rows of A13 by their letters.
func TestGluster_thresholds(t *testing.T) {
	c := apitest.Client(t)
	type threshold = v1alpha1.GlusterThreshold
	n := func(i int32) *int32 { return &i }
	const (
		excludes = "nodes is a fixed number, and excludes"
		bounds   = "minNodes must be less than maxNodes"
		space    = "freeStorageMin must be less than freeStorageMax"
		positive = "must be more than 0"
	)
	for name, row := range map[string]struct {
		threshold threshold
		want      string
	}{
		"a: a fixed number":                    {threshold{Nodes: n(3)}, ""},
		"b: with minNodes":                     {threshold{Nodes: n(3), MinNodes: n(2)}, excludes},
		"b: with maxNodes":                     {threshold{Nodes: n(3), MaxNodes: n(4)}, excludes},
		"c: with freeStorageMax":               {threshold{Nodes: n(3), FreeStorageMax: quantity("1Ti")}, excludes},
		"c: with freeStorageMin":               {threshold{Nodes: n(3), FreeStorageMin: quantity("1Ti")}, excludes},
		"d: bounds":                            {threshold{MinNodes: n(3), MaxNodes: n(5)}, ""},
		"e: equal bounds":                      {threshold{MinNodes: n(3), MaxNodes: n(3)}, bounds},
		"f: bounds the wrong way round":        {threshold{MinNodes: n(5), MaxNodes: n(3)}, bounds},
		"g: bounds of the space":               {threshold{FreeStorageMin: quantity("1Ti"), FreeStorageMax: quantity("3Ti")}, ""},
		"h: equal sizes in different words":    {threshold{FreeStorageMin: quantity("1Ti"), FreeStorageMax: quantity("1024Gi")}, space},
		"h: sizes the wrong way round":         {threshold{FreeStorageMin: quantity("2Ti"), FreeStorageMax: quantity("1Ti")}, space},
		"i: all bounds":                        {threshold{MinNodes: n(3), MaxNodes: n(99), FreeStorageMin: quantity("500Gi"), FreeStorageMax: quantity("2Ti")}, ""},
		"j: none":                              {threshold{}, "threshold must not be empty"},
		"k: a negative number":                 {threshold{Nodes: n(-1)}, "spec.nodeTemplates[0].threshold.nodes"},
		"k: no nodes at all":                   {threshold{Nodes: n(0)}, ""},
		"k: a negative minNodes":               {threshold{MinNodes: n(-1)}, "spec.nodeTemplates[0].threshold.minNodes"},
		"k: a negative maxNodes":               {threshold{MaxNodes: n(-1)}, "spec.nodeTemplates[0].threshold.maxNodes"},
		"k: a negative size":                   {threshold{FreeStorageMin: quantity("-1Gi")}, positive},
		"k: a size of zero":                    {threshold{FreeStorageMax: quantity("0")}, positive},
		"a number beyond what a pool can have": {threshold{MaxNodes: n(1001)}, "spec.nodeTemplates[0].threshold.maxNodes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := glusterCluster()
			o.Spec.NodeTemplates[0].Threshold = row.threshold
			verdict(t, c.Create(t.Context(), o, client.DryRunAll), row.want)
		})
	}
}

func TestGluster_clusters(t *testing.T) {
	c := apitest.Client(t)
	type cluster = v1alpha1.GlusterCluster
	option := func(name string, value v1alpha1.GlusterOptionValue) func(*cluster) {
		return func(o *cluster) { o.Spec.ClusterOptions = map[string]v1alpha1.GlusterOptionValue{name: value} }
	}
	target := func(targets ...v1alpha1.GlusterReplicationTarget) func(*cluster) {
		return func(o *cluster) { o.Spec.Replication = &v1alpha1.GlusterReplication{Targets: targets} }
	}
	for name, row := range map[string]struct {
		edit func(*cluster)
		want string
	}{
		"a good one":                          {func(*cluster) {}, ""},
		"a long name":                         {func(o *cluster) { o.Name = strings.Repeat("a", 25) }, "at most 24 characters"},
		"a name with a dot":                   {func(o *cluster) { o.Name = "a.b" }, "at most 24 characters"},
		"A16: both drivers":                   {func(o *cluster) { o.Spec.Drivers, o.Spec.Images.Drivers = bothDrivers() }, ""},
		"A16: an unknown driver":              {func(o *cluster) { o.Spec.Drivers = []v1alpha1.GlusterDriver{"gluster-nfs"} }, "spec.drivers[0]"},
		"A16: a driver without an image":      {func(o *cluster) { o.Spec.Images.Drivers = nil }, "images.drivers must have the image of every driver"},
		"A16: a driver given twice":           {func(o *cluster) { o.Spec.Drivers = append(o.Spec.Drivers, o.Spec.Drivers...) }, "spec.drivers[1]"},
		"an image of an unknown driver":       {func(o *cluster) { o.Spec.Images.Drivers["gluster-nfs"] = "x" }, "the drivers are gluster-fuse and gluster-block"},
		"no image of glusterd2":               {func(o *cluster) { o.Spec.Images.Glusterd2 = "" }, "spec.images.glusterd2"},
		"no image of etcd":                    {func(o *cluster) { o.Spec.Images.Etcd = "" }, "spec.images.etcd"},
		"an image with a blank":               {func(o *cluster) { o.Spec.Images.Etcd = "a b" }, "spec.images.etcd"},
		"A16: a certificate authority":        {func(o *cluster) { o.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"} }, ""},
		"A16: one without a name":             {func(o *cluster) { o.Spec.GlusterCA = &v1alpha1.GlusterCredentials{} }, "spec.glusterCA.secretName"},
		"A16: a target":                       {target(v1alpha1.GlusterReplicationTarget{Name: "far", Address: []string{"10.0.0.1"}}), ""},
		"A16: a target without an address":    {target(v1alpha1.GlusterReplicationTarget{Name: "far", Address: []string{}}), "address"},
		"A16: a target with an empty address": {target(v1alpha1.GlusterReplicationTarget{Name: "far", Address: []string{""}}), "address"},
		"A16: two targets of one name": {target(v1alpha1.GlusterReplicationTarget{Name: "far", Address: []string{"a"}},
			v1alpha1.GlusterReplicationTarget{Name: "far", Address: []string{"b"}}), "spec.replication.targets[1]"},
		"A17: no StorageClass":        {func(o *cluster) { o.Spec.NodeTemplates[0].Storage.StorageClassName = "" }, "storageClassName"},
		"A17: no capacity":            {func(o *cluster) { o.Spec.NodeTemplates[0].Storage.Capacity = resource.Quantity{} }, "capacity must be at least 1Gi"},
		"A17: a negative capacity":    {func(o *cluster) { o.Spec.NodeTemplates[0].Storage.Capacity = *quantity("-1Ti") }, "capacity must be at least 1Gi"},
		"two templates of one name":   {func(o *cluster) { o.Spec.NodeTemplates = append(o.Spec.NodeTemplates, o.Spec.NodeTemplates[0]) }, "spec.nodeTemplates[1]"},
		"a template without a name":   {func(o *cluster) { o.Spec.NodeTemplates[0].Name = "" }, "spec.nodeTemplates[0].name"},
		"a template with a long name": {func(o *cluster) { o.Spec.NodeTemplates[0].Name = strings.Repeat("a", 19) }, "spec.nodeTemplates[0].name"},
		"a strange zone":              {func(o *cluster) { o.Spec.NodeTemplates[0].Zone = "_zone" }, "spec.nodeTemplates[0].zone"},
		"giving up after a while":     {func(o *cluster) { o.Spec.FailOfflineAfter = &metav1.Duration{Duration: time.Hour} }, ""},
		"giving up too early":         {func(o *cluster) { o.Spec.FailOfflineAfter = &metav1.Duration{Duration: time.Minute} }, "failOfflineAfter must be at least 10m"},

		"options: multiplex":                      {option("cluster.brick-multiplex", "on"), ""},
		"options: multiplex, as a129 broke":       {option("cluster.brick-multiplex", "maybe"), "must be on or off"},
		"options: another case":                   {option("cluster.brick-multiplex", "ON"), "must be on or off"},
		"options: local time":                     {option("cluster.localtime-logging", "yes"), "must be on or off"},
		"options: bricks of a process":            {option("cluster.max-bricks-per-process", "250"), ""},
		"options: a negative number, as in a123":  {option("cluster.max-bricks-per-process", "-1"), "from 1 to 99999"},
		"options: a number with a blank":          {option("cluster.max-bricks-per-process", "5 "), "from 1 to 99999"},
		"options: hosting volumes are made":       {option("auto-create-block-hosting-volumes", "false"), ""},
		"options: and removed":                    {option("auto-delete-block-hosting-volumes", "off"), "must be true or false"},
		"options: their size":                     {option("block-hosting-volume-size", "5GiB"), ""},
		"options: a size of another spelling":     {option("block-hosting-volume-size", "5Gi"), "such as 5GiB"},
		"options: their copies":                   {option("block-hosting-volume-replica-count", "3"), ""},
		"options: one copy":                       {option("block-hosting-volume-replica-count", "1"), "must be 2 or 3"},
		"options: shared storage":                 {option("cluster.shared-storage", "on"), "an option that is not allowed"},
		"options: the version of the operations":  {option("cluster.op-version", "60000"), "an option that is not allowed"},
		"options: one that the server knows not":  {option("cluster.nosuch", "on"), "an option that is not allowed"},
		"options: one of a volume":                {option("cluster.halo-enabled", "yes"), "an option that is not allowed"},
		"options: a long value":                   {option("block-hosting-volume-size", v1alpha1.GlusterOptionValue(strings.Repeat("1", 33))), "clusterOptions"},
		"options: an empty value":                 {option("cluster.brick-multiplex", ""), "must be on or off"},
		"options: the name with a blank":          {option("cluster.brick-multiplex ", "on"), "an option that is not allowed"},
		"options: another spelling of the name":   {option("cluster/brick-multiplex", "on"), "an option that is not allowed"},
		"options: no value that is more than one": {option("cluster.brick-multiplex", "on\noff"), "must be on or off"},
	} {
		t.Run(name, func(t *testing.T) {
			o := glusterCluster()
			row.edit(o)
			verdict(t, c.Create(t.Context(), o, client.DryRunAll), row.want)
		})
	}
}

func bothDrivers() ([]v1alpha1.GlusterDriver, map[string]v1alpha1.GlusterImage) {
	return []v1alpha1.GlusterDriver{v1alpha1.GlusterFuse, v1alpha1.GlusterBlock},
		map[string]v1alpha1.GlusterImage{"gluster-fuse": "example.com/fuse:1", "gluster-block": "example.com/block:1"}
}

func TestGluster_nodes(t *testing.T) {
	c := apitest.Client(t)
	type node = v1alpha1.GlusterNode
	external := &v1alpha1.GlusterExternal{Address: "10.0.0.1"}
	storage := func(all ...v1alpha1.GlusterStorage) func(*node) {
		return func(o *node) { o.Spec.Storage, o.Spec.NodeAffinity = all, pinned() }
	}
	for name, row := range map[string]struct {
		edit func(*node)
		want string
	}{
		"a good one":                        {func(*node) {}, ""},
		"a long name":                       {func(o *node) { o.Name = strings.Repeat("a", 53) }, "at most 52 characters"},
		"A11: enabled":                      {func(o *node) { o.Spec.DesiredState = v1alpha1.GlusterEnabled }, ""},
		"A11: disabled":                     {func(o *node) { o.Spec.DesiredState = v1alpha1.GlusterDisabled }, ""},
		"A11: anything else":                {func(o *node) { o.Spec.DesiredState = "deleting" }, "spec.desiredState"},
		"A11: another case":                 {func(o *node) { o.Spec.DesiredState = "Enabled" }, "spec.desiredState"},
		"A14b: external":                    {func(o *node) { o.Spec.External, o.Spec.Storage = external, nil }, ""},
		"A14b: external without an address": {func(o *node) { o.Spec.External, o.Spec.Storage = &v1alpha1.GlusterExternal{}, nil }, "spec.external.address"},
		"A14b: a device":                    {storage(v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/one"}), ""},
		"A14b: a claim":                     {storage(v1alpha1.GlusterStorage{PVCName: "disk"}), ""},
		"A14b: both in one item":            {storage(v1alpha1.GlusterStorage{PVCName: "disk", Device: "/dev/disk/by-id/one"}), "exactly one of device and pvcName"},
		"A14b: an item with neither":        {storage(v1alpha1.GlusterStorage{Tags: []string{"fast"}}), "exactly one of device and pvcName"},
		"A14b: external with storage":       {func(o *node) { o.Spec.External = external }, "exactly one of external and storage"},
		"A14b: neither":                     {func(o *node) { o.Spec.Storage = nil }, "exactly one of external and storage"},
		"A14b: one device twice":            {storage(v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/one"}, v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/one"}), "must be given once"},
		"A14b: one claim twice":             {storage(v1alpha1.GlusterStorage{PVCName: "a"}, v1alpha1.GlusterStorage{PVCName: "a"}), "must be given once"},
		"a device by a path that moves":     {storage(v1alpha1.GlusterStorage{Device: "/dev/sdb"}), "below /dev/disk/by-id"},
		"a pattern of devices":              {storage(v1alpha1.GlusterStorage{Device: "/dev/sd[b-d]"}), "a device path must be absolute"},
		"a device with another spelling":    {storage(v1alpha1.GlusterStorage{Device: "/dev/sdb/"}), "a device path must be absolute"},
		"a device on any node": {
			func(o *node) { o.Spec.Storage = []v1alpha1.GlusterStorage{{Device: "/dev/disk/by-id/one"}} },
			"needs a required nodeAffinity",
		},
		"the record of a disk": {func(o *node) { o.Spec.Devices = []v1alpha1.GlusterDevice{disk()} }, ""},
		"one without an identity": {func(o *node) {
			o.Spec.Devices = []v1alpha1.GlusterDevice{disk()}
			o.Spec.Devices[0].Serial = ""
		}, "a WWN or a serial number"},
		"one by a path that moves": {func(o *node) {
			o.Spec.Devices = []v1alpha1.GlusterDevice{disk()}
			o.Spec.Devices[0].Path = "/dev/sdb"
		}, "below /dev/disk/by-id"},
		"A18: no cluster":       {func(o *node) { o.Spec.Cluster = "" }, "spec.cluster"},
		"a strange zone":        {func(o *node) { o.Spec.Zone = "a b" }, "spec.zone"},
		"an external lost node": {func(o *node) { o.Spec.External, o.Spec.Storage, o.Spec.Lost = external, nil, "x" }, "cannot be declared lost"},
	} {
		t.Run(name, func(t *testing.T) {
			o := glusterNode()
			row.edit(o)
			verdict(t, c.Create(t.Context(), o, client.DryRunAll), row.want)
		})
	}
}

// disk is the record of a disk.
func disk() v1alpha1.GlusterDevice {
	return v1alpha1.GlusterDevice{Device: "/dev/disk/by-id/one", Path: "/dev/disk/by-id/one", Node: "n1", Serial: "S", Size: 1, Recorded: metav1.Now()}
}

// glusterMove is the record of a brick that is moved.
func glusterMove(brick string) *v1alpha1.GlusterMove {
	return &v1alpha1.GlusterMove{Brick: brick, Volume: "v", Path: "/b", Asked: metav1.Now()}
}

// pinned matches one node of Kubernetes.
func pinned() *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
	}}}}
}

// TestGluster_changes: what is an identity, and what glusterd2 cannot take back, stays.
func TestGluster_changes(t *testing.T) {
	c := apitest.Client(t)
	o := glusterNode()
	o.Spec.Zone = "east"
	must(t, c.Create(t.Context(), o))
	t.Cleanup(func() { must(t, c.Delete(context.WithoutCancel(t.Context()), o)) })
	for name, row := range map[string]struct {
		edit func(*v1alpha1.GlusterNodeSpec)
		want string
	}{
		"maintenance": {func(s *v1alpha1.GlusterNodeSpec) { s.DesiredState = v1alpha1.GlusterDisabled }, ""},
		"one claim more": {func(s *v1alpha1.GlusterNodeSpec) {
			s.Storage = append(s.Storage, v1alpha1.GlusterStorage{PVCName: "b"})
		}, ""},
		"other tags":      {func(s *v1alpha1.GlusterNodeSpec) { s.Storage[0].Tags = []string{"fast"} }, ""},
		"another claim":   {func(s *v1alpha1.GlusterNodeSpec) { s.Storage[0].PVCName = "b" }, "storage cannot be taken off a node"},
		"another cluster": {func(s *v1alpha1.GlusterNodeSpec) { s.Cluster = "other" }, "cluster cannot be changed"},
		"another zone":    {func(s *v1alpha1.GlusterNodeSpec) { s.Zone = "west" }, "zone cannot be changed"},
		"no zone":         {func(s *v1alpha1.GlusterNodeSpec) { s.Zone = "" }, "zone cannot be changed"},
		"a move begins":   {func(s *v1alpha1.GlusterNodeSpec) { s.Move = glusterMove("b1") }, ""},
		"becomes external": {func(s *v1alpha1.GlusterNodeSpec) {
			s.Storage, s.External = nil, &v1alpha1.GlusterExternal{Address: "a"}
		}, "cannot become external"},
	} {
		t.Run(name, func(t *testing.T) {
			n := o.DeepCopy()
			row.edit(&n.Spec)
			verdict(t, c.Update(t.Context(), n, client.DryRunAll), row.want)
		})
	}

	o.Spec.Move = glusterMove("b1")
	must(t, c.Update(t.Context(), o))
	const stays = "stays on record until its data are whole elsewhere"
	n := o.DeepCopy()
	n.Spec.Move = nil
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), stays)
	n.Spec.Move = glusterMove("b2")
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), stays)
	o.Spec.Move.Whole = true
	must(t, c.Update(t.Context(), o))
	n = o.DeepCopy()
	n.Spec.Move = nil
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), "")

	o.Spec.NodeAffinity = pinned()
	o.Spec.Storage = append(o.Spec.Storage, v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/one"}, v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/two"})
	o.Spec.Devices = []v1alpha1.GlusterDevice{disk()}
	must(t, c.Update(t.Context(), o))
	n = o.DeepCopy()
	n.Spec.Devices = nil
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), "")
	o.Spec.Devices[0].Allocated = true
	must(t, c.Update(t.Context(), o))
	n = o.DeepCopy()
	n.Spec.Storage = n.Spec.Storage[:2]
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), "")
	n.Spec.Storage = n.Spec.Storage[:1]
	verdict(t, c.Update(t.Context(), n, client.DryRunAll), "storage cannot be taken off a node")
	for want, edit := range map[string]func(*v1alpha1.GlusterNodeSpec){
		"none that is allocated is taken off": func(s *v1alpha1.GlusterNodeSpec) { s.Devices = nil },
		"stays allocated":                     func(s *v1alpha1.GlusterNodeSpec) { s.Devices[0].Allocated = false },
		"on record is not changed":            func(s *v1alpha1.GlusterNodeSpec) { s.Devices[0].WWN = "another" },
	} {
		n := o.DeepCopy()
		edit(&n.Spec)
		verdict(t, c.Update(t.Context(), n, client.DryRunAll), want)
	}

	pool := glusterCluster()
	must(t, c.Create(t.Context(), pool))
	t.Cleanup(func() { must(t, c.Delete(context.WithoutCancel(t.Context()), pool)) })
	changed := pool.DeepCopy()
	changed.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"}
	verdict(t, c.Update(t.Context(), changed, client.DryRunAll), "glusterCA can be given only when the cluster is made")
	changed = pool.DeepCopy()
	changed.Spec.NodeTemplates[0].Threshold = v1alpha1.GlusterThreshold{MinNodes: new(int32(1))}
	changed.Spec.Images.Drivers = maps.Clone(pool.Spec.Images.Drivers)
	verdict(t, c.Update(t.Context(), changed, client.DryRunAll), "")
}

// TestGluster_decodable: what the API server takes of a GlusterNode can be decoded. One object that cannot be keeps the whole list from everybody who reads it.
func TestGluster_decodable(t *testing.T) {
	c := apitest.Client(t)
	const device = `{"device":"/dev/disk/by-id/a","node":"n","path":"/dev/disk/by-id/a","serial":"A","size":%s,"recorded":%q}`
	const move = `{"brick":"b","volume":"v","path":"/b","subvolume":%s,"position":0,"asked":%q}`
	for name, row := range map[string]struct {
		spec  string
		taken bool
	}{
		"a time":                         {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27T08:00:00Z") + `]`, true},
		"a time with an offset":          {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27T08:00:00.25+01:30") + `]`, true},
		"a time in lower case":           {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27t08:00:00z") + `]`, false},
		"a time with a blank":            {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27 08:00:00Z") + `]`, false},
		"a time with a strange offset":   {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27T08:00:00+99:00") + `]`, false},
		"a day that no month has":        {`"devices":[` + fmt.Sprintf(device, "1", "2026-02-30T08:00:00Z") + `]`, false},
		"a leap second":                  {`"devices":[` + fmt.Sprintf(device, "1", "2026-11-27T23:59:60Z") + `]`, false},
		"a size beyond all numbers":      {`"devices":[` + fmt.Sprintf(device, "1e21", "2026-11-27T08:00:00Z") + `]`, false},
		"a size with a fraction":         {`"devices":[` + fmt.Sprintf(device, "1.5", "2026-11-27T08:00:00Z") + `]`, false},
		"a move":                         {`"move":` + fmt.Sprintf(move, "1", "2026-11-27T08:00:00Z"), true},
		"a move at a time in lower case": {`"move":` + fmt.Sprintf(move, "1", "2026-11-27t08:00:00z"), false},
		"a move beyond all numbers":      {`"move":` + fmt.Sprintf(move, "1e21", "2026-11-27T08:00:00Z"), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GlusterNode"))
			o.SetNamespace("default")
			o.SetName("decodable")
			raw := fmt.Sprintf(`{"apiVersion":%q,"kind":"GlusterNode","metadata":{"name":"decodable","namespace":"default"},"spec":{"cluster":"pool","storage":[{"pvcName":"disk"}],%s}}`, v1alpha1.GroupVersion, row.spec)
			err := c.Patch(t.Context(), o, client.RawPatch(types.ApplyPatchType, []byte(raw)), client.DryRunAll, client.FieldOwner("test"))
			if taken := err == nil; taken != row.taken {
				t.Fatalf("taken %t, want %t: %v", taken, row.taken, err)
			}
			if err != nil {
				return
			}
			text, err := json.Marshal(o)
			if err == nil {
				err = json.Unmarshal(text, &v1alpha1.GlusterNode{})
			}
			if err != nil {
				t.Errorf("the API server takes what cannot be decoded: %v", err)
			}
		})
	}
}

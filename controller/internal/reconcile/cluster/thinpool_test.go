package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func thinCluster(pool *v1alpha1.ThinPoolSpec) *v1alpha1.Cluster {
	o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "thin"}}
	o.Spec.StorageType, o.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	o.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: pool}
	return o
}

// wantError checks that an error has a text, or that there is none when the text is empty.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("got %v, want %q", err, text)
	}
}

func TestAdmission_thinPool(t *testing.T) {
	c := apitest.Client(t)
	type pool = v1alpha1.ThinPoolSpec
	const ratio, chunk = "overprovisionRatio must be a decimal number", "chunkSize must be a multiple of 64Ki"
	ratioOf := func(s string) pool { return pool{OverprovisionRatio: s} }
	chunkOf := func(s string) pool { return pool{ChunkSize: quantity(s)} }
	for name, tc := range map[string]struct {
		pool pool
		want string
	}{
		"nothing is said":                    {pool{}, ""},
		"everything is said":                 {pool{Percent: new(int32(100)), OverprovisionRatio: "2.5", ChunkSize: quantity("128Ki")}, ""},
		"size and percent":                   {pool{Size: quantity("1Gi"), Percent: new(int32(50))}, "size and percent exclude each other"},
		"the smallest size":                  {pool{Size: quantity("64Mi")}, ""},
		"the smallest size, written as such": {pool{Size: quantity("67108864")}, ""},
		"a size below the smallest":          {pool{Size: quantity("67108863")}, "at least 64Mi"},
		"no size":                            {pool{Size: quantity("0")}, "at least 64Mi"},
		"a negative size":                    {pool{Size: quantity("-1Gi")}, "at least 64Mi"},
		"percent below 1":                    {pool{Percent: new(int32(0))}, "percent"},
		"percent above 100":                  {pool{Percent: new(int32(101))}, "percent"},
		"the least ratio":                    {ratioOf("1.0"), ""},
		"the least ratio, a whole number":    {ratioOf("1"), ""},
		"the greatest ratio":                 {ratioOf("100.00"), ""},
		"a ratio below 1":                    {ratioOf("0.99"), ratio},
		"a ratio above 100":                  {ratioOf("100.01"), ratio},
		"a ratio far above 100":              {ratioOf("999.99"), ratio},
		"three decimals":                     {ratioOf("1.125"), ratio},
		"a negative ratio":                   {ratioOf("-2"), ratio},
		"a ratio with an exponent":           {ratioOf("1e1"), ratio},
		"a ratio with a comma":               {ratioOf("1,5"), ratio},
		"a ratio that ends with its point":   {ratioOf("2."), ratio},
		"a ratio with a space":               {ratioOf(" 2"), ratio},
		"no number":                          {ratioOf("NaN"), ratio},
		"a long ratio":                       {ratioOf("1.00000"), "overprovisionRatio"},
		"the smallest chunk":                 {chunkOf("64Ki"), ""},
		"the greatest chunk":                 {chunkOf("1Gi"), ""},
		"a chunk below the smallest":         {chunkOf("32Ki"), chunk},
		"a chunk above the greatest":         {chunkOf("1048640Ki"), chunk},
		"a chunk that is no multiple":        {chunkOf("100Ki"), chunk},
		"a chunk with a fraction":            {chunkOf("65536500m"), chunk},
		"no chunk":                           {chunkOf("0"), chunk},
	} {
		t.Run(name, func(t *testing.T) {
			o := thinCluster(&tc.pool)
			err := c.Create(context.Background(), o)
			if err == nil {
				t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
				if o.Spec.LVM.ThinPool.OverprovisionRatio == "" {
					t.Error("the ratio has no default")
				}
			}
			wantError(t, err, tc.want)
		})
	}
}

func TestAdmission_thinPoolChanges(t *testing.T) {
	c := apitest.Client(t)
	type pool = v1alpha1.ThinPoolSpec
	const removed, changed = "lvm.thinPool cannot be removed", "chunkSize cannot be changed"
	sized := pool{Size: quantity("2Gi"), ChunkSize: quantity("128Ki")}
	shared := pool{Percent: new(int32(50))}
	for name, tc := range map[string]struct {
		before *pool
		edit   func(*v1alpha1.LVMSpec)
		want   string
	}{
		"added later":                     {nil, func(s *v1alpha1.LVMSpec) { s.ThinPool = &pool{} }, ""},
		"removed":                         {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool = nil }, removed},
		"a greater size":                  {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.Size = quantity("3Gi") }, ""},
		"the same size, otherwise":        {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.Size = quantity("2048Mi") }, ""},
		"a smaller size":                  {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.Size = quantity("2047Mi") }, "size must not be made smaller"},
		"a greater percent":               {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool.Percent = new(int32(51)) }, ""},
		"a smaller percent":               {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool.Percent = new(int32(49)) }, "percent must not be made smaller"},
		"percent instead of a size":       {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.Size, s.ThinPool.Percent = nil, new(int32(90)) }, ""},
		"a size besides percent":          {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool.Size = quantity("1Gi") }, "size and percent exclude each other"},
		"another ratio":                   {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool.OverprovisionRatio = "3.0" }, ""},
		"another chunk":                   {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.ChunkSize = quantity("64Ki") }, changed},
		"the same chunk, otherwise":       {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.ChunkSize = quantity("131072") }, ""},
		"no chunk any more":               {&sized, func(s *v1alpha1.LVMSpec) { s.ThinPool.ChunkSize = nil }, changed},
		"a chunk where none was":          {&shared, func(s *v1alpha1.LVMSpec) { s.ThinPool.ChunkSize = quantity("64Ki") }, changed},
		"another size and no lvm options": {&sized, func(s *v1alpha1.LVMSpec) { *s = v1alpha1.LVMSpec{} }, removed},
	} {
		t.Run(name, func(t *testing.T) {
			o := thinCluster(tc.before.DeepCopy())
			if err := c.Create(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
			tc.edit(o.Spec.LVM)
			wantError(t, c.Update(context.Background(), o), tc.want)
		})
	}
	t.Run("all lvm options removed", func(t *testing.T) {
		o := thinCluster(&pool{})
		if err := c.Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
		o.Spec.LVM = nil
		wantError(t, c.Update(context.Background(), o), removed)
	})
}

func TestReconcile_thinPoolReachesClassAndStatus(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", func(c *v1alpha1.ClusterSpec) {
		c.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Percent: new(int32(50)), OverprovisionRatio: "2.5"}}
	}, "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning),
		hasCondition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionTrue, v1alpha1.ReasonThinPoolsHealthy)))
	sc := s.class("pool")
	if sc == nil || sc.Parameters[v1alpha1.ParameterThinPool] != v1alpha1.ThinPoolName || sc.Parameters[v1alpha1.ParameterOverprovision] != "250" {
		t.Fatalf("storage class: %+v", sc)
	}
	u := s.member("pool", "n1").Status.ThinPool
	if u == nil || u.Name != v1alpha1.ThinPoolName || u.Size.Value() < 45<<30 || u.Size.Value() > 50<<30 {
		t.Errorf("thin pool in the status: %+v", u)
	}
	// The class is made again for another ratio, which volumes do not notice.
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.LVM.ThinPool.OverprovisionRatio = "4" })
	s.until("pool", func(*v1alpha1.Cluster) string {
		if sc := s.class("pool"); sc == nil || sc.Parameters[v1alpha1.ParameterOverprovision] != "400" {
			return "the class has the old ratio"
		}
		return ""
	})
}

// thinVolume makes a Cluster with a thin pool on n1, and a volume in the pool.
func (s *suite) thinVolume() {
	s.t.Helper()
	size := resource.MustParse("10Gi")
	s.add("pool", func(spec *v1alpha1.ClusterSpec) {
		spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Size: &size}}
	}, "n1")
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if _, err := s.pool.CreateVolume(s.t.Context(), "n1", decide.VolumeSpec{
		Group: "quarry-pool", Owner: string(c.UID), Name: "v1", ID: "n1/quarry-pool/v1", SizeBytes: 1 << 30, ThinPool: "quarry-thin",
	}); err != nil {
		s.t.Fatal(err)
	}
}

// seenPool is the thin pool as the agent of n1 reports it.
func (s *suite) seenPool() decide.ThinPool {
	if n := s.pool.Node("n1"); len(n.Groups) == 1 && len(n.Groups[0].Pools) == 1 {
		return n.Groups[0].Pools[0]
	}
	return decide.ThinPool{}
}

func (s *suite) restartAgent() {
	s.agents["n1"].Disarm()
	s.agents["n1"].Restart(s.t)
	s.pool.SetAddress("n1", s.agents["n1"].Addr(), "pod-after")
}

// repairWaits checks that the repair of a pool waits for approval, and names its volumes.
func repairWaits(c *v1alpha1.Cluster) string {
	if p := c.Status.Plan; p == nil || p.Approved || len(p.Steps) != 1 || p.Steps[0].Action != v1alpha1.ActionRepairThinPool || p.Steps[0].Volumes == nil {
		return fmt.Sprintf("plan %+v: %s", p, c.Status.Message)
	}
	return ""
}

// TestReconcile_damagedPoolIsRepairedByApproval: a damaged thin pool is repaired once a person approves the plan that names it, and not before. The agent
// may die meanwhile. An approval that was used up does not serve again.
func TestReconcile_damagedPoolIsRepairedByApproval(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.thinVolume()
	s.agents["n1"].DamagePool("quarry-pool")
	s.restartAgent()
	digest := s.until("pool", repairWaits).Status.Plan.Digest
	if p := s.seenPool(); p.Damage == "" || len(p.KeptMetadata) > 0 {
		t.Fatalf("repaired without approval: %+v", p)
	}
	s.agents["n1"].CrashBefore(1)
	s.approve(digest)
	s.await("the agent dies", func() string {
		if _ = s.reconcile("pool"); s.agents["n1"].Alive() {
			return "it lives"
		}
		return ""
	})
	s.restartAgent()
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if p := s.seenPool(); p.Damage != "" || p.UsageUnknown || len(p.KeptMetadata) != 1 {
			return fmt.Sprintf("pool %+v: %s", p, c.Status.Message)
		}
		return all(hasPhase(v1alpha1.PhaseRunning), noApproval)(c)
	})
	if m := s.member("pool", "n1"); m.Status.Plan != nil || m.Status.ThinPool == nil || len(m.Status.ThinPool.KeptMetadata) != 1 {
		t.Errorf("the Member shows %+v", m.Status)
	}
	s.drain()
	s.approve(digest)
	s.until("pool", noApproval)
	if told := strings.Join(s.drain(), "\n"); !strings.Contains(told, digest) || len(s.seenPool().KeptMetadata) != 1 {
		t.Errorf("after a second approval: %q, %+v", told, s.seenPool())
	}
}

func noApproval(c *v1alpha1.Cluster) string {
	if c.Annotations[v1alpha1.AnnotationApprove] != "" {
		return "the approval is still there"
	}
	return ""
}

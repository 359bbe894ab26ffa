package health

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestConditions_driverAndPools(t *testing.T) {
	pool := func(data, metadata int32) Host {
		return Host{Name: "n1", Node: decide.Node{Agent: decide.AgentUp}, Groups: []decide.Group{{
			Name: "g", Pools: []decide.ThinPool{{Name: "p", SizeBytes: 1 << 30, DataPermyriad: data, MetadataPermyriad: metadata}},
		}}}
	}
	ready := Driver{Exists: true, Ready: true}
	for name, tt := range map[string]struct {
		in      Cluster
		csi     string
		isReady metav1.ConditionStatus
		pools   string
		want    v1alpha1.Phase
	}{
		"well":            {Cluster{Hosts: []Host{pool(7999, 0)}, Driver: ready}, v1alpha1.ReasonCSIReady, metav1.ConditionTrue, v1alpha1.ReasonThinPoolsHealthy, v1alpha1.PhaseRunning},
		"data full":       {Cluster{Hosts: []Host{pool(8000, 0)}, Driver: ready}, v1alpha1.ReasonCSIReady, metav1.ConditionTrue, v1alpha1.ReasonThinPoolNearlyFull, v1alpha1.PhaseWarning},
		"metadata full":   {Cluster{Hosts: []Host{pool(0, 9000)}, Driver: ready}, v1alpha1.ReasonCSIReady, metav1.ConditionTrue, v1alpha1.ReasonThinPoolNearlyFull, v1alpha1.PhaseWarning},
		"driver deploys":  {Cluster{Hosts: []Host{pool(0, 0)}}, v1alpha1.ReasonCSIDeploying, metav1.ConditionFalse, v1alpha1.ReasonThinPoolsHealthy, v1alpha1.PhaseCreating},
		"driver is stuck": {Cluster{Hosts: []Host{pool(0, 0)}, Driver: Driver{Failed: "no image"}}, v1alpha1.ReasonCSIFailed, metav1.ConditionFalse, v1alpha1.ReasonThinPoolsHealthy, v1alpha1.PhaseWarning},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.Class = Class{Exists: true}
			conditions := tt.in.Conditions()
			for kind, want := range map[string]string{v1alpha1.ConditionCSIReady: tt.csi, v1alpha1.ConditionThinPoolsHealthy: tt.pools} {
				if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Reason != want {
					t.Errorf("condition %s is %+v, want %s", kind, c, want)
				}
			}
			if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c.Status != tt.isReady {
				t.Errorf("ready: %+v", c)
			}
			if got := tt.in.Phase(); got != tt.want {
				t.Errorf("phase %s, want %s", got, tt.want)
			}
		})
	}
}

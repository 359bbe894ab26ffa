package archtest

// namers may name every storage type although they are no room of one, each for a reason.
var namers = map[string]string{
	"pkg/api":                               "the API has the names",
	"pkg/quarry":                            "names that both sides know",
	"pkg/volumeid":                          "what both sides know of local volumes",
	"pkg/sharedlun":                         "what both sides know of volumes on shared LUNs",
	"pkg/sharedvolume":                      "what both sides know of volumes on shares",
	"pkg/cephvolume":                        "what both sides know of volumes of Ceph",
	"controller/internal/setup":             "it puts the program together",
	"controller/internal/reconcile/cluster": "it binds the kind Cluster to its backends",
	"agent/agenttest":                       "a host for tests, with the tools of all types",
	"agent/internal/doctor":                 "it says of each type what a node lacks for it",
}

// namerOf returns the entry of namers that a package is in.
func namerOf(importPath string) (string, bool) {
	for name := range namers {
		if bound(importPath, []string{name}) {
			return name, true
		}
	}
	return "", false
}

// exemption is what one package may name of single backends, and why.
type exemption struct {
	names []string
	why   string
}

// exempt are the packages that name single types, actions or parameters of one backend. Whoever adds one says why the backend cannot say it.
var exempt = map[string]exemption{
	"controller/internal/backend/backendtest": {
		[]string{"MemberGroup", "ActionWipeDevice", "ActionEnsureVolumeGroup", "ActionEnsureThinPool", "ActionRemoveVolumeGroup"},
		"the model that the engine's tests run over takes, records and gives back devices by the actions of local volumes",
	},
	"controller/internal/decide":                {[]string{"ThinPoolUsage"}, "what agents report of nodes, of which every backend reads its part"},
	"controller/internal/decide/backend":        {[]string{"MemberGroup", "ThinPoolUsage"}, "what a backend decides of a host is written into fields of the Member"},
	"controller/internal/decide/disk":           {[]string{"GlusterDevice", "GlusterNode"}, "a disk of a GlusterNode carries no mark: only that record keeps other backends from choosing it"},
	"controller/internal/decide/gluster/device": {[]string{"Cluster", "MemberOSD"}, "it refuses a disk that a Cluster chooses, or that a Member has on record as an OSD: nothing on the disk need say so"},
	"controller/internal/kube":                  {[]string{"GlusterNode", "GlusterNodeList"}, "it reads the records of GlusterNodes for whoever chooses disks"},
	"controller/internal/reconcile/storage": {
		[]string{"ThinPoolUsage"}, "it writes what a backend decides into fields of the Member",
	},
	"controller/internal/reconcile/storagenode": {
		[]string{"GlusterDevice", "GlusterNode", "GlusterNodeList", "NodeVolumeGroup"}, "a StorageNode tells of every disk and group of a node, and whose they are",
	},
	"controller/internal/san/fleet": {[]string{"IscsiList"}, "the writer of shared LUNs, which the backend and the CSI driver of Iscsi share"},
}

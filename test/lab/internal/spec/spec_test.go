package spec

import (
	"net/netip"
	"testing"
)

func TestParseDisks(t *testing.T) {
	tests := map[string]struct {
		in      string
		want    DiskSet
		wantErr bool
	}{
		"two disks of two GiB":       {in: "2x2G", want: DiskSet{Count: 2, Bytes: 2 << 30}},
		"one disk without a count":   {in: "512M", want: DiskSet{Count: 1, Bytes: 512 << 20}},
		"binary suffix spelled out":  {in: "3x1GiB", want: DiskSet{Count: 3, Bytes: 1 << 30}},
		"zero means none":            {in: "0", want: DiskSet{}},
		"empty means none":           {in: "", want: DiskSet{}},
		"size without a unit":        {in: "2x2", wantErr: true},
		"size of nothing":            {in: "2x0G", wantErr: true},
		"more disks than slots":      {in: "11x1G", wantErr: true},
		"negative count":             {in: "-1x1G", wantErr: true},
		"number too big for a count": {in: "99999999999999999999x1G", wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseDisks(tt.in)
			if (err != nil) != tt.wantErr {
				t.Fatalf("ParseDisks(%q) error = %v, want error %v", tt.in, err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("ParseDisks(%q) = %+v, want %+v", tt.in, got, tt.want)
			}
		})
	}
}

func TestLab_Validate(t *testing.T) {
	good := Lab{Name: "quarry", Nodes: 3, Memory: 2 << 30}
	if err := good.Validate(); err != nil {
		t.Fatalf("Validate() of a good lab: %v", err)
	}
	bare := Lab{Name: "quarry", Nodes: 2, Memory: 256 << 20, Bare: true}
	if err := bare.Validate(); err != nil {
		t.Fatalf("Validate() of a bare lab: %v", err)
	}
	bad := map[string]Lab{
		"name with a slash": {Name: "a/b", Nodes: 3, Memory: 2 << 30},
		"empty name":        {Nodes: 3, Memory: 2 << 30},
		"no nodes":          {Name: "a", Memory: 2 << 30},
		"too many nodes":    {Name: "a", Nodes: 201, Memory: 2 << 30},
		"too little memory": {Name: "a", Nodes: 1, Memory: 1 << 20},
		"images, and bare":  {Name: "a", Nodes: 1, Memory: 2 << 30, Bare: true, Images: []string{"/a.tar"}},
	}
	for name, lab := range bad {
		t.Run(name, func(t *testing.T) {
			if lab.Validate() == nil {
				t.Errorf("Validate(%+v) accepted it", lab)
			}
		})
	}
}

func TestLab_Index(t *testing.T) {
	lab := Lab{Nodes: 3}
	if i, err := lab.Index("n3"); err != nil || i != 3 {
		t.Errorf("Index(n3) = %d, %v", i, err)
	}
	for _, name := range []string{"n0", "n4", "", "3"} {
		if _, err := lab.Index(name); err == nil {
			t.Errorf("Index(%q) found a node", name)
		}
	}
}

func TestAddressPlan_everyAddressIsValidAndUnique(t *testing.T) {
	seen := map[string]bool{ControlPlane: true, ManagementHost: true}
	for i := 1; i <= maxNodes; i++ {
		for _, a := range []string{NodeIP(i), ManagementIP(i)} {
			if _, err := netip.ParseAddr(a); err != nil {
				t.Fatalf("node %d: %v", i, err)
			}
			if seen[a] {
				t.Fatalf("node %d: %s is taken", i, a)
			}
			seen[a] = true
		}
		pods, err := netip.ParsePrefix(NodePodCIDR(i))
		if err != nil || !netip.MustParsePrefix(PodCIDR).Overlaps(pods) {
			t.Fatalf("node %d: pod range %s, %v", i, NodePodCIDR(i), err)
		}
		// The kernel cuts interface names at fifteen characters.
		if len(ClusterTap(i)) > 15 || len(ManagementTap(i)) > 15 {
			t.Fatalf("node %d: tap name too long", i)
		}
	}
}

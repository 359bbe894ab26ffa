package driver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewImages(t *testing.T) {
	for _, tt := range []struct {
		name, own, registry, overrides string
		want                           Images
		wantErr                        string
	}{
		{
			name: "defaults", own: "quarry.storage/controller:dev",
			want: Images{
				Driver: "quarry.storage/controller:dev", Provisioner: "registry.k8s.io/sig-storage/csi-provisioner:v6.3.0",
				Attacher: "registry.k8s.io/sig-storage/csi-attacher:v4.13.0",
				Resizer:  "registry.k8s.io/sig-storage/csi-resizer:v2.2.0", Snapshotter: "registry.k8s.io/sig-storage/csi-snapshotter:v8.6.0",
				Registrar: "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.15.0",
			},
		},
		{
			name: "mirror with one image of its own", own: "a:b", registry: "mirror.example:5000/k8s/", overrides: "csi-resizer=x.example/r@sha256:00,",
			want: Images{
				Driver: "a:b", Provisioner: "mirror.example:5000/k8s/csi-provisioner:v6.3.0", Resizer: "x.example/r@sha256:00",
				Attacher: "mirror.example:5000/k8s/csi-attacher:v4.13.0", Snapshotter: "mirror.example:5000/k8s/csi-snapshotter:v8.6.0",
				Registrar: "mirror.example:5000/k8s/csi-node-driver-registrar:v2.15.0",
			},
		},
		{name: "no own image", wantErr: "image of driver"},
		{name: "unknown container", own: "a:b", overrides: "csi-unknown=x", wantErr: "want name=image"},
		{name: "no image", own: "a:b", overrides: "csi-resizer", wantErr: "image of csi-resizer"},
		{name: "registry with a space", own: "a:b", registry: "x y", wantErr: "not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewImages(tt.own, tt.registry, tt.overrides)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

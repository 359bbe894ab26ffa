package driver

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Names of the containers of a driver's Deployment. The sidecars are those of the Kubernetes project.
const (
	// Driver is our own container: the CSI controller services.
	Driver = "driver"
	// Provisioner makes and deletes volumes, and publishes capacity.
	Provisioner = "csi-provisioner"
	// Attacher attaches volumes to nodes, for a driver that has them attached.
	Attacher = "csi-attacher"
	// Resizer grows volumes.
	Resizer = "csi-resizer"
	// Snapshotter makes and deletes snapshots.
	Snapshotter = "csi-snapshotter"
	// Registrar tells the kubelet of a driver on its node. Ours register themselves; those of Gluster do not.
	Registrar = "csi-node-driver-registrar"
)

// DefaultRegistry holds the sidecars.
const DefaultRegistry = "registry.k8s.io/sig-storage"

// versions of the sidecars, by name. This is the one place that names them.
var versions = map[string]string{
	Provisioner: "v6.3.0",
	Attacher:    "v4.13.0",
	Resizer:     "v2.2.0",
	Snapshotter: "v8.6.0",
	Registrar:   "v2.15.0",
}

// Images are the images of the containers, by name.
type Images map[string]string

// imageForm is what a reference of an image looks like: enough to keep mistakes out, the container runtime knows the rest.
var imageForm = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._:/@-]{0,511}$`)

// NewImages returns the images of all containers: own for the driver, the sidecars of their versions from the registry, and
// instead of them what overrides say: "name=image", separated by commas.
func NewImages(own, registry, overrides string) (Images, error) {
	if registry == "" {
		registry = DefaultRegistry
	}
	images := Images{Driver: own}
	for name, version := range versions {
		images[name] = strings.TrimSuffix(registry, "/") + "/" + name + ":" + version
	}
	for _, o := range strings.FieldsFunc(overrides, func(r rune) bool { return r == ',' }) {
		name, image, _ := strings.Cut(o, "=")
		if _, ok := images[name]; !ok {
			return nil, fmt.Errorf("sidecar image %q: want name=image with a name out of %s", o, strings.Join(Names(), ", "))
		}
		images[name] = image
	}
	return images, images.validate()
}

// Names returns the names of all containers in order.
func Names() []string {
	names := []string{Driver}
	for name := range versions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (i Images) validate() error {
	var errs []error
	for _, name := range Names() {
		if !imageForm.MatchString(i[name]) {
			errs = append(errs, fmt.Errorf("image of %s %q is not valid", name, i[name]))
		}
	}
	return errors.Join(errs...)
}

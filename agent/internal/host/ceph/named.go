package ceph

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/cephname"
)

// logs is where a kubelet keeps a link to the log of every container, from before the container is ready until it removes it. The link is named
// POD_NAMESPACE_CONTAINER-ID.log, and nobody but root on the node can make one.
const logs = "var/log/containers"

// named returns ErrNoContainer unless the kubelet says that the container is the one for programs, in a pod of the namespace of Ceph's daemons. In any other
// namespace people may make pods who have no right to any node, and an image of theirs would bring a program that runs with the agent's rights. Whoever may make pods
// in this one has all rights on its nodes already, so the account of the pod is not asked for.
func (t *Tool) named(container string) error {
	root, err := unix.Open(filepath.Join(t.cfg.Proc, "1/root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("root of the node: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	// A link on the way leads elsewhere on the node, not in the agent's own root.
	fd, err := unix.Openat2(root, logs, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return fmt.Errorf("logs of containers, /%s: %w", logs, err)
	}
	dir := os.NewFile(uintptr(fd), "/"+logs)
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("logs of containers: %w", err)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return ofTools(name, container) }) {
		return fmt.Errorf("%w: by the kubelet's logs no container %s of a pod in namespace %s has the ID %s",
			ErrNoContainer, cephname.ContainerTools, cephname.Namespace, container)
	}
	return nil
}

// ofTools reports whether a link is that of the container with the programs. No name of a pod, a namespace or a container has an underscore.
func ofTools(link, container string) bool {
	parts := strings.Split(link, "_")
	return len(parts) == 3 && parts[1] == cephname.Namespace && parts[2] == cephname.ContainerTools+"-"+container+".log"
}

package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

// configMap writes the configuration file for the monitors that are on record now.
func (b *Backend) configMap(ctx context.Context, c *v1alpha1.Cluster) error {
	have := &corev1.ConfigMap{}
	there, err := b.get(ctx, cephname.Config(c.Name), have)
	if err != nil || !there {
		return err
	}
	listening, err := b.listening(ctx, c)
	if err != nil {
		return err
	}
	lines := strings.Split(have.Data[cephname.KeyConfig], "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, cephpod.HostsKey) {
			lines[i] = cephpod.HostsKey + cephpod.Hosts(listening)
		}
	}
	return b.writeConfig(ctx, c, entries(map[string]string{cephname.KeyConfig: strings.Join(lines, "\n")}))
}

// entries sets some entries of the ConfigMap. The others stay as they are.
func entries(set map[string]string) func(map[string]string) error {
	return func(data map[string]string) error {
		maps.Copy(data, set)
		return nil
	}
}

// writeConfig changes what is in the ConfigMap, as it was read a moment ago. Jobs that run side by side both write it: whoever is late fails, and looks again in the next pass.
func (b *Backend) writeConfig(ctx context.Context, c *v1alpha1.Cluster, change func(data map[string]string) error) error {
	have := &corev1.ConfigMap{}
	there, err := b.get(ctx, cephname.Config(c.Name), have)
	if err != nil {
		return err
	}
	if there && have.Labels[cephname.LabelFSID] != c.FSID() {
		return fmt.Errorf("the ConfigMap %s in namespace %s is of another Ceph cluster", have.Name, cephname.Namespace)
	}
	if !there {
		have = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cephname.Config(c.Name), Namespace: cephname.Namespace, Labels: cephpod.Of(c).Labels(cephname.ObjectConfig, "")}, Data: map[string]string{}}
		if err := change(have.Data); err != nil {
			return err
		}
		return b.Client.Create(ctx, have)
	}
	before := have.DeepCopy()
	if have.Data == nil {
		have.Data = map[string]string{}
	}
	if err := change(have.Data); err != nil {
		return err
	}
	return b.Client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// configure tells Ceph its options. Those that it refuses are put on record with what it said: only a change of them tries them again.
func (b *Backend) configure(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	monitors, err := b.client(s.FSID)
	if err != nil {
		return err
	}
	if err := monitors.Verify(ctx); err != nil {
		return err
	}
	w := &view.Workloads{}
	if err := b.files(ctx, c, w); err != nil {
		return err
	}
	want, refused := map[string]string{}, map[string]string{}
	if err := json.Unmarshal([]byte(s.Text), &want); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if err := b.beginOptions(ctx, c, monitors, w.Options, want); err != nil {
		return err
	}
	for key, value := range want {
		err := set(ctx, monitors, key, value)
		if said := (*ceph.Error)(nil); errors.Is(err, ceph.ErrRefused) && errors.As(err, &said) {
			refused[key] = said.Said
		} else if err != nil {
			return err
		}
	}
	raw, err := json.Marshal(refused)
	if err != nil {
		return err
	}
	if err := b.metrics(ctx, c, s, want); err != nil {
		return err
	}
	if want[cephname.Module+"."+cephname.ModuleDashboard] == "" {
		if err := b.remove(ctx, s, cephname.Dashboard(c.Name), &corev1.Service{}); err != nil {
			return err
		}
	}
	return b.writeConfig(ctx, c, entries(map[string]string{keyOptions: s.Text, keyRefused: string(raw)}))
}

// beginOptions puts options on record, without a value, before Ceph is told them: should the process end, one that is taken off the spec meanwhile is taken back. Those that are not wanted any more it takes back now.
func (b *Backend) beginOptions(ctx context.Context, c *v1alpha1.Cluster, monitors *ceph.Client, told, want map[string]string) error {
	begun := map[string]string{}
	maps.Copy(begun, told)
	for key, value := range want {
		if told[key] != value {
			begun[key] = ""
		}
	}
	if !maps.Equal(begun, told) {
		raw, err := json.Marshal(begun)
		if err == nil {
			err = b.writeConfig(ctx, c, entries(map[string]string{keyOptions: string(raw)}))
		}
		if err != nil {
			return err
		}
	}
	return forget(ctx, monitors, told, want)
}

// forget takes back what Ceph was told and is not wanted any more.
func forget(ctx context.Context, monitors *ceph.Client, told, want map[string]string) error {
	for key := range told {
		if _, stays := want[key]; stays {
			continue
		}
		if err := unset(ctx, monitors, key); err != nil && !errors.Is(err, ceph.ErrRefused) {
			return err
		}
	}
	return nil
}

// set has Ceph take an option, or its managers run a module.
func set(ctx context.Context, monitors *ceph.Client, key, value string) error {
	who, name, _ := strings.Cut(key, ".")
	if who == cephname.Module {
		return monitors.EnableModule(ctx, name)
	}
	return monitors.SetOption(ctx, who, name, value)
}

// unset takes that back.
func unset(ctx context.Context, monitors *ceph.Client, key string) error {
	who, name, _ := strings.Cut(key, ".")
	if who == cephname.Module {
		return monitors.DisableModule(ctx, name)
	}
	return monitors.ResetOption(ctx, who, name)
}

// metrics has the Service of the managers' metrics be there, or not.
func (b *Backend) metrics(ctx context.Context, c *v1alpha1.Cluster, s view.Step, options map[string]string) error {
	if options[cephname.Module+"."+cephname.ModuleMetrics] == "" {
		return b.remove(ctx, s, cephname.Metrics(c.Name), &corev1.Service{})
	}
	if err := b.mine(ctx, cephname.Metrics(c.Name), s, &corev1.Service{}); err != nil {
		return err
	}
	return b.apply(ctx, cephpod.Of(c).Metrics())
}

// serve puts on record that the filesystem is made, makes it, and the group of its volumes, and writes the key of the clients.
func (b *Backend) serve(ctx context.Context, s view.Step) error {
	if err := b.note(ctx, s, v1alpha1.AnnotationCephServed, s.UID); err != nil {
		return err
	}
	c, err := b.client(s.FSID)
	if err != nil {
		return err
	}
	defer b.memory.changed(types.UID(s.UID))
	if err := c.MakeFilesystem(ctx); err != nil {
		return err
	}
	serves, err := c.Serves(ctx)
	if err != nil {
		return err
	}
	if !serves {
		return passing("no metadata server serves the filesystem yet")
	}
	volumes, err := subvolume.Open(ctx, c)
	if err != nil {
		return err
	}
	if err := volumes.EnsureGroup(ctx); err != nil {
		return err
	}
	// Kernels before 7.0 mount with no other key.
	if err := volumes.AllowAES(ctx); err != nil {
		return err
	}
	key, err := volumes.EnsureUser(ctx, cephvolume.CipherAES)
	if err != nil {
		return err
	}
	return b.writeClient(ctx, s, key)
}

// writeClient writes the Secret of the clients.
func (b *Backend) writeClient(ctx context.Context, s view.Step, key cephvolume.Key) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	name, have := cephname.Client(c.Name), &corev1.Secret{}
	data := map[string][]byte{cephname.KeyUser: []byte(cephname.ClientUser), cephname.KeySecret: []byte(key.Reveal()), cephvolume.SecretMonitors: []byte(s.Text)}
	there, err := b.get(ctx, name, have)
	switch {
	case err != nil:
		return err
	case there && have.Labels[cephname.LabelFSID] != s.FSID:
		return fmt.Errorf("the Secret %s in namespace %s is of another Ceph cluster", name, cephname.Namespace)
	case !there:
		return b.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cephname.Namespace, Labels: cephpod.Of(c).Labels(cephname.ObjectClient, "")}, Data: data,
		})
	}
	before := have.DeepCopy()
	have.Data = data
	return b.Client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// tearDown puts on record that no volume was left. Once nothing runs any more it removes keys and configuration.
func (b *Backend) tearDown(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	if !noted.Is(c, v1alpha1.AnnotationCephRemoved) {
		return b.giveUp(ctx, s, c)
	}
	var errs []error
	for _, kind := range []string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonOSD, cephname.DaemonMetadata} {
		errs = append(errs, b.remove(ctx, s, cephpod.BudgetName(s.Cluster, kind), &policyv1.PodDisruptionBudget{}))
	}
	errs = append(errs, b.remove(ctx, s, cephname.Metrics(s.Cluster), &corev1.Service{}))
	errs = append(errs, b.remove(ctx, s, cephname.Dashboard(s.Cluster), &corev1.Service{}), b.remove(ctx, s, cephname.Dashboard(s.Cluster), &corev1.Secret{}))
	errs = append(errs, b.dropKeys(ctx, s))
	// The keys go last: as long as they are there, the rest is found again.
	errs = append(errs, b.remove(ctx, s, cephname.Client(s.Cluster), &corev1.Secret{}), b.remove(ctx, s, cephname.Config(s.Cluster), &corev1.ConfigMap{}))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return b.remove(ctx, s, cephname.Keys(s.Cluster), &corev1.Secret{})
}

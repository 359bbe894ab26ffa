package randomtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// objects are those of one kind by name. A map that was handed out is never changed, and neither is an object in it.
type objects map[client.ObjectKey]client.Object

// state is all that an API server has.
type state map[schema.GroupVersionKind]objects

// change is one write, as a watch tells it: before is nil for a new object, after for one that is gone.
type change struct {
	kind          string
	before, after client.Object
}

// api is a stand-in for the API server. A call that nobody expected panics: client.Client is nil.
type api struct {
	client.Client
	scheme  *runtime.Scheme
	indexes map[string]client.IndexerFunc

	mu      sync.Mutex
	state   state
	version int
	changes []change
	// spoil changes every object before it is stored: a mutant.
	spoil func(client.Object)
	// careless deletes objects at once, whatever their finalizers: a mutant.
	careless bool
}

func newAPI() (*api, error) {
	s := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s))
	return &api{scheme: s, indexes: map[string]client.IndexerFunc{}, state: state{}}, err
}

// Scheme implements client.Client.
func (a *api) Scheme() *runtime.Scheme { return a.scheme }

// IndexField implements client.FieldIndexer.
func (a *api) IndexField(_ context.Context, _ client.Object, field string, extract client.IndexerFunc) error {
	a.indexes[field] = extract
	return nil
}

func (a *api) kindOf(o runtime.Object) schema.GroupVersionKind {
	kind, err := apiutil.GVKForObject(o, a.scheme)
	if err != nil {
		// Only the snapshot API is missing, and its kinds are not in the scheme.
		kind = o.GetObjectKind().GroupVersionKind()
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind
}

// now returns the state, which does not change any more.
func (a *api) now() state {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.state)
}

// Get implements client.Reader.
func (a *api) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return a.get(a.now(), key, o)
}

// List implements client.Reader.
func (a *api) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return a.list(a.now(), list, opts...)
}

func (a *api) get(s state, key client.ObjectKey, o client.Object) error {
	kind := a.kindOf(o)
	have := s[kind][key]
	if have == nil {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	read(have, o)
	return nil
}

func (a *api) list(s state, list client.ObjectList, opts ...client.ListOption) error {
	kind := a.kindOf(list)
	if !a.scheme.Recognizes(kind) {
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	keys := slices.SortedFunc(maps.Keys(s[kind]), func(x, y client.ObjectKey) int { return strings.Compare(x.String(), y.String()) })
	for _, key := range keys {
		have := s[kind][key]
		if o.Namespace != "" && o.Namespace != key.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(have.GetLabels())) {
			continue
		}
		if o.FieldSelector != nil && !a.indexed(have, o) {
			continue
		}
		items = append(items, have.DeepCopyObject())
	}
	if p, ok := list.(*metav1.PartialObjectMetadataList); ok {
		p.Items = nil
		for _, item := range items {
			item, _ := item.(client.Object)
			var m metav1.PartialObjectMetadata
			read(item, &m)
			p.Items = append(p.Items, m)
		}
		return nil
	}
	return meta.SetList(list, items)
}

func (a *api) indexed(o client.Object, opts client.ListOptions) bool {
	for _, r := range opts.FieldSelector.Requirements() {
		extract := a.indexes[r.Field]
		if extract == nil {
			panic("no index " + r.Field)
		}
		if !slices.Contains(extract(o), r.Value) {
			return false
		}
	}
	return true
}

// read copies an object, or its metadata.
func read(from, to client.Object) {
	c := reflect.ValueOf(from.DeepCopyObject()).Elem()
	if p, ok := to.(*metav1.PartialObjectMetadata); ok {
		p.ObjectMeta, _ = c.FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
		return
	}
	reflect.ValueOf(to).Elem().Set(c)
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
}

// put replaces an object; nil removes it. The caller holds the lock.
func (a *api) put(kind schema.GroupVersionKind, key client.ObjectKey, after client.Object) {
	all := maps.Clone(a.state[kind])
	if all == nil {
		all = objects{}
	}
	before := all[key]
	if after == nil {
		delete(all, key)
	} else {
		if a.spoil != nil {
			a.spoil(after)
		}
		a.version++
		after.SetResourceVersion(fmt.Sprint(a.version))
		all[key] = after
	}
	a.state[kind] = all
	a.changes = append(a.changes, change{kind.Kind, before, after})
}

// Create implements client.Writer.
func (a *api) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, key := a.kindOf(o), client.ObjectKeyFromObject(o)
	if a.state[kind][key] != nil {
		return apierrors.NewAlreadyExists(resourceOf(kind), key.Name)
	}
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", a.version)))
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	made, _ := o.DeepCopyObject().(client.Object)
	if hasStatus(made) {
		statusOf(made).SetZero()
	}
	a.put(kind, key, made)
	read(made, o)
	return nil
}

// hasStatus reports whether a kind has a status subresource. Those of others are written as a whole here.
func hasStatus(o client.Object) bool {
	switch o.(type) {
	case *v1alpha1.Cluster, *v1alpha1.Member, *v1alpha1.StorageNode, *v1alpha1.Nfs:
		return true
	}
	return false
}

func statusOf(o client.Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }

func spec(o client.Object) any {
	if f := reflect.ValueOf(o).Elem().FieldByName("Spec"); f.IsValid() {
		return f.Interface()
	}
	return nil
}

// Update implements client.Writer.
func (a *api) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.write(o, o, false)
}

// write replaces the object of a name by wanted, or its status only, and reads the result into out. The caller holds the lock.
func (a *api) write(wanted, out client.Object, onlyStatus bool) error {
	kind, key := a.kindOf(wanted), client.ObjectKeyFromObject(wanted)
	have := a.state[kind][key]
	switch v := wanted.GetResourceVersion(); {
	case have == nil:
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	case v != "" && v != have.GetResourceVersion(), wanted.GetUID() != "" && wanted.GetUID() != have.GetUID():
		return apierrors.NewConflict(resourceOf(kind), key.Name, errors.New("the object has been modified"))
	}
	after, _ := wanted.DeepCopyObject().(client.Object)
	if onlyStatus {
		after, _ = have.DeepCopyObject().(client.Object)
		statusOf(after).Set(statusOf(wanted))
	} else if hasStatus(after) {
		statusOf(after).Set(statusOf(have))
	}
	after.SetResourceVersion(have.GetResourceVersion())
	after.SetUID(have.GetUID())
	after.SetGeneration(have.GetGeneration())
	after.SetCreationTimestamp(have.GetCreationTimestamp())
	after.SetDeletionTimestamp(have.GetDeletionTimestamp())
	for _, f := range after.GetFinalizers() {
		if have.GetDeletionTimestamp() != nil && !slices.Contains(have.GetFinalizers(), f) {
			return apierrors.NewForbidden(resourceOf(kind), key.Name, errors.New("no finalizer can be added to an object that is being deleted"))
		}
	}
	if equality.Semantic.DeepEqual(have, after) {
		read(have, out)
		return nil
	}
	if !equality.Semantic.DeepEqual(spec(have), spec(after)) {
		after.SetGeneration(have.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		a.put(kind, key, nil)
		read(after, out)
		return nil
	}
	a.put(kind, key, after)
	read(after, out)
	return nil
}

// Patch implements client.Writer, for merge patches.
func (a *api) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return a.patch(o, p, false)
}

func (a *api) patch(o client.Object, p client.Patch, onlyStatus bool) error {
	data, err := p.Data(o)
	if err != nil || p.Type() != types.MergePatchType {
		return fmt.Errorf("patch of type %s: %w", p.Type(), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, key := a.kindOf(o), client.ObjectKeyFromObject(o)
	have := a.state[kind][key]
	if have == nil {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	wanted, err := merged(have, data)
	if err != nil {
		return err
	}
	return a.write(wanted, o, onlyStatus)
}

// merged returns a copy of an object with a merge patch.
func merged(have client.Object, data []byte) (client.Object, error) {
	raw, err := json.Marshal(have)
	var tree, patch map[string]any
	if err = errors.Join(err, json.Unmarshal(raw, &tree), json.Unmarshal(data, &patch)); err != nil {
		return nil, err
	}
	mergeInto(tree, patch)
	if raw, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	out, _ := reflect.New(reflect.TypeOf(have).Elem()).Interface().(client.Object)
	return out, json.Unmarshal(raw, out)
}

func mergeInto(tree, patch map[string]any) {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		switch have, ok := tree[k].(map[string]any); {
		case v == nil:
			delete(tree, k)
		case isMap && ok:
			mergeInto(have, sub)
		case isMap:
			tree[k] = map[string]any{}
			mergeInto(tree[k].(map[string]any), sub)
		default:
			tree[k] = v
		}
	}
}

// Apply implements client.Writer. Who owns which field is not modelled: what is applied is merged into what is there.
func (a *api) Apply(ctx context.Context, want runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	data, err := json.Marshal(want)
	var m metav1.PartialObjectMetadata
	if err = errors.Join(err, json.Unmarshal(data, &m)); err != nil {
		return err
	}
	o, err := a.scheme.New(m.GroupVersionKind())
	if err != nil {
		return err
	}
	made, ok := o.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	made.SetName(m.Name)
	if err := a.Get(ctx, client.ObjectKey{Name: m.Name}, made); err == nil {
		return a.Patch(ctx, made, client.RawPatch(types.MergePatchType, data))
	}
	if err := json.Unmarshal(data, made); err != nil {
		return err
	}
	return a.Create(ctx, made)
}

// Delete implements client.Writer.
func (a *api) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, key := a.kindOf(o), client.ObjectKeyFromObject(o)
	have := a.state[kind][key]
	if have == nil {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != have.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion() {
			return apierrors.NewConflict(resourceOf(kind), key.Name, errors.New("the precondition failed"))
		}
	}
	switch {
	case len(have.GetFinalizers()) == 0 || a.careless:
		a.put(kind, key, nil)
	case have.GetDeletionTimestamp() == nil:
		after, _ := have.DeepCopyObject().(client.Object)
		at := metav1.NewTime(time.Now().Truncate(time.Second))
		after.SetDeletionTimestamp(&at)
		after.SetGeneration(have.GetGeneration() + 1)
		a.put(kind, key, after)
	}
	return nil
}

// Status implements client.StatusClient.
func (a *api) Status() client.SubResourceWriter { return statusWriter{api: a} }

type statusWriter struct {
	client.SubResourceWriter
	api *api
}

// Patch writes the status only.
func (w statusWriter) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.api.patch(o, p, true)
}

// cached is a client that reads what a cache had at a moment, and writes to the API server.
type cached struct {
	*api
	at state
}

// Get implements client.Reader.
func (c *cached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return c.get(c.at, key, o)
}

// List implements client.Reader.
func (c *cached) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.list(c.at, list, opts...)
}

package kube

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Patch changes metadata or spec of an object and writes the difference, unless somebody else wrote meanwhile: then the error is a
// conflict. It reports whether there was a difference. The object is then as the API server has it, but for its status: that stays as the
// reconcile computed it.
func Patch[T client.Object](ctx context.Context, c client.Client, o T, change func(T)) (wrote bool, err error) {
	written, ok := o.DeepCopyObject().(T)
	if !ok {
		panic("a copy of an object is not of its type")
	}
	change(written)
	if equality.Semantic.DeepEqual(o, written) {
		return false, nil
	}
	if err := c.Patch(ctx, written, locked(deepCopy(o)), FieldOwner); err != nil {
		return false, wrap(err, "patch %s", describe(o))
	}
	if status := statusOf(o); status.IsValid() {
		statusOf(written).Set(status)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(written).Elem())
	return true, nil
}

// AddFinalizer adds a finalizer, and reports whether it was not there before. An object that is gone needs none.
func AddFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) (added bool, err error) {
	added, err = Patch(ctx, c, o, func(o client.Object) { controllerutil.AddFinalizer(o, finalizer) })
	return added, client.IgnoreNotFound(err)
}

// RemoveFinalizer takes a finalizer off. An object that is gone has none.
func RemoveFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	_, err := Patch(ctx, c, o, func(o client.Object) { controllerutil.RemoveFinalizer(o, finalizer) })
	return client.IgnoreNotFound(err)
}

// Delete deletes the very object that was read, and never another one that got its name meanwhile. One that is gone is deleted.
func Delete(ctx context.Context, c client.Client, o client.Object, options ...client.DeleteOption) error {
	uid := o.GetUID()
	err := c.Delete(ctx, o, append([]client.DeleteOption{client.Preconditions{UID: &uid}}, options...)...)
	return client.IgnoreNotFound(wrap(err, "delete %s", describe(o)))
}

// DeleteUnchanged deletes the very object that was read, unless anything about it was changed meanwhile: then the error is a conflict.
func DeleteUnchanged(ctx context.Context, c client.Client, o client.Object, options ...client.DeleteOption) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := c.Delete(ctx, o, append([]client.DeleteOption{client.Preconditions{UID: &uid, ResourceVersion: &version}}, options...)...)
	return client.IgnoreNotFound(wrap(err, "delete %s", describe(o)))
}

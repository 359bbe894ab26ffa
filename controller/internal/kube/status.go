package kube

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteStatus writes the status of after when it differs from that of before, which is the object as it was read. It reports whether it
// wrote. An object that is gone meanwhile needs no status. When somebody else wrote meanwhile the error is a conflict: the status has to
// be computed again. Both objects are of one type with a field Status; after gets the new resourceVersion.
func WriteStatus(ctx context.Context, c client.Client, before, after client.Object) (wrote bool, err error) {
	was, is := statusOf(before), statusOf(after)
	if !was.IsValid() || !is.IsValid() || was.Type() != is.Type() {
		return false, fmt.Errorf("write status of %s: %T and %T have no status in common", describe(after), before, after)
	}
	if equality.Semantic.DeepEqual(was.Interface(), is.Interface()) {
		return false, nil
	}
	// The object may have been changed since it was read, by this reconcile itself: only the status is to be compared.
	base, written := deepCopy(after), deepCopy(after)
	statusOf(base).Set(was)
	err = c.Status().Patch(ctx, written, locked(base), FieldOwner)
	if err != nil {
		return false, client.IgnoreNotFound(wrap(err, "patch status of %s", describe(after)))
	}
	after.SetResourceVersion(written.GetResourceVersion())
	return true, nil
}

// SameStatus reports whether two objects of one type have the same status.
func SameStatus(a, b client.Object) bool {
	was, is := statusOf(a), statusOf(b)
	return was.IsValid() && is.IsValid() && was.Type() == is.Type() && equality.Semantic.DeepEqual(was.Interface(), is.Interface())
}

// statusOf returns the field Status of an object; an invalid value when it has none.
func statusOf(o client.Object) reflect.Value {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.Elem().FieldByName("Status")
}

func deepCopy(o client.Object) client.Object {
	out, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		panic(fmt.Sprintf("a copy of %T is not of its type", o))
	}
	return out
}

// locked returns a patch from base that the API server takes only while the object is as base says. A list in a merge patch replaces what
// is there, so it must still be what was read.
func locked(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// wrap says what failed; no error stays none.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

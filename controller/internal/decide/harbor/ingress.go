package harbor

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// redirect returns how clients are redirected; nil when they are not. The old place of the block counts when the new one is empty.
func redirect(c *v1alpha1.HarborCluster) *v1alpha1.HarborRedirect {
	r := c.Spec.Storage.Spec.Redirect
	if m := c.Spec.Storage.Spec.MinIO; r == nil && m != nil {
		r = m.Redirect
	}
	if r == nil || r.Enable != nil && !*r.Enable {
		return nil
	}
	return r
}

// minioIngress returns the ingress through which clients reach MinIO; nil when they do not.
func minioIngress(c *v1alpha1.HarborCluster) (ingress *v1alpha1.HarborIngress, certificate string) {
	r := redirect(c)
	if r == nil || r.Expose == nil || r.Expose.Ingress == nil {
		return nil, ""
	}
	if r.Expose.TLS != nil {
		certificate = string(r.Expose.TLS.CertificateRef)
	}
	return r.Expose.Ingress, certificate
}

// controllerAnnotations are what an ingress controller needs to be told: that layers of images are larger than what it lets through otherwise, and, where
// the Ingress has a certificate, to send those who come without TLS there. The Harbor operator sets the same on Ingresses of its own. What the spec
// gives goes before.
func controllerAnnotations(controller string, tls bool) map[string]string {
	// Other controllers do not know this one.
	told := map[string]string{"nginx.ingress.kubernetes.io/proxy-body-size": "0"}
	switch controller {
	case "ncp":
		told["ncp/use-regex"] = "true"
		if tls {
			told["ncp/http-redirect"] = "true"
		}
	case "contour":
		if tls {
			told["ingress.kubernetes.io/force-ssl-redirect"] = "true"
		}
	}
	return told
}

// Ingress returns the Ingress that leads to MinIO, and whether there shall be one.
func Ingress(c *v1alpha1.HarborCluster) (o *unstructured.Unstructured, wanted bool) {
	o = object(c, IngressKind, tenantName(c), map[string]any{})
	i, certificate := minioIngress(c)
	if i == nil {
		return o, false
	}
	spec := map[string]any{"rules": []any{map[string]any{
		"host": i.Host,
		"http": map[string]any{"paths": []any{map[string]any{
			"path": "/", "pathType": "Prefix",
			"backend": map[string]any{"service": map[string]any{"name": minioService, "port": map[string]any{"number": int64(80)}}},
		}}},
	}}}
	if certificate != "" {
		spec["tls"] = []any{map[string]any{"secretName": certificate, "hosts": []any{i.Host}}}
	}
	if i.IngressClassName != nil {
		spec["ingressClassName"] = *i.IngressClassName
	}
	o.Object["spec"] = spec
	annotations := o.GetAnnotations()
	maps.Copy(annotations, controllerAnnotations(i.Controller, certificate != ""))
	maps.Copy(annotations, i.Annotations)
	o.SetAnnotations(annotations)
	return o, true
}

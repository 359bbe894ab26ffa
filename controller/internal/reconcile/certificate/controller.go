// Package certificate handles the agents' requests for serving certificates: it approves and signs the good ones and denies the others.
// Package pki decides which are good.
package certificate

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval;certificatesigningrequests/status,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=quarry.storage/agent,verbs=approve;sign

// Authority gives the CA that signs.
type Authority interface {
	Authority() (pki.Authority, error)
}

// Reconciler approves, signs and denies requests.
type Reconciler struct {
	Client    client.Client
	Authority Authority
	Policy    pki.Policy
	// Now is the clock.
	Now func() time.Time
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&certificatesv1.CertificateSigningRequest{}).Named("certificate").
		WithOptions(kube.Options(1)).Complete(r)
}

// Reconcile approves or denies a request, then signs it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.Client.Get(ctx, req.NamespacedName, csr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if csr.Spec.SignerName != v1alpha1.SignerAgent || len(csr.Status.Certificate) > 0 || has(csr, certificatesv1.CertificateDenied) ||
		has(csr, certificatesv1.CertificateFailed) {
		return ctrl.Result{}, nil
	}
	// A request that is gone meanwhile needs nothing.
	return kube.Retry(ctx, ctrl.Result{}, client.IgnoreNotFound(r.handle(ctx, csr)))
}

func (r *Reconciler) handle(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	log := logf.FromContext(ctx)
	request, denial := r.Policy.Decide(csr)
	approved := has(csr, certificatesv1.CertificateApproved)
	switch {
	case denial != nil && approved:
		// Somebody else approved it. That does not make it good.
		log.Info("Refusing to sign", "reason", denial.Reason, "message", denial.Message)
		r.set(csr, certificatesv1.CertificateFailed, denial.Reason, denial.Message)
		return r.Client.Status().Update(ctx, csr, kube.FieldOwner)
	case denial != nil:
		log.Info("Denying certificate", "reason", denial.Reason, "message", denial.Message)
		r.set(csr, certificatesv1.CertificateDenied, denial.Reason, denial.Message)
		return r.Client.SubResource("approval").Update(ctx, csr, kube.FieldOwner)
	case !approved:
		r.set(csr, certificatesv1.CertificateApproved, "AgentOfNode", "The agent's service account asks for the node that it runs on.")
		if err := r.Client.SubResource("approval").Update(ctx, csr, kube.FieldOwner); err != nil {
			return err
		}
	}
	authority, err := r.Authority.Authority()
	if err != nil {
		return err
	}
	var wish time.Duration
	if s := csr.Spec.ExpirationSeconds; s != nil {
		wish = time.Duration(*s) * time.Second
	}
	if csr.Status.Certificate, err = authority.SignAgent(request, wish, r.Now()); err != nil {
		return fmt.Errorf("sign %s: %w", csr.Name, err)
	}
	log.Info("Signing certificate", "subject", request.Subject.CommonName)
	return r.Client.Status().Update(ctx, csr, kube.FieldOwner)
}

func (r *Reconciler) set(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType, reason, message string) {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: metav1.NewTime(r.Now()),
	})
}

func has(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	for _, c := range csr.Status.Conditions {
		if c.Type == t {
			return true
		}
	}
	return false
}

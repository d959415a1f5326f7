//! The state of a gateway, shared by its shards.

use std::sync::{Arc, OnceLock, Weak};

use openskill_agent::hosted::Hosted;
use openskill_identity::shares::Share;
use openskill_metrics::Snapshot;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::SkillError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::aside::Aside;
use crate::call::principal::Principal;
use crate::call::request::Call;
use crate::catalog::Catalog;
use crate::catalog::agents::Agents;
use crate::catalog::snapshot::callable;
use crate::config::{Config, TasksConfig};
use crate::dispatch::affinity::Affinity;
use crate::dispatch::budget::RetryBudget;
use crate::dispatch::lateness::Lateness;
use crate::dispatch::questions::Questions;
use crate::identity::audit;
use crate::identity::grant::Grant;
use crate::identity::registry::Registry;
use crate::mcp::McpState;
use crate::mcp::tasks::{Tasks, Times};
use crate::observe::Observer;
use crate::observe::call_record::CallRecord;
use crate::observe::metrics::{CertificateGauge, Gauges};
use crate::observe::recorder::Recorder;
use crate::protect::admission::{Admission, Permit, Refusal};
use crate::protect::circuit::Circuits;
use crate::protect::idempotency::IdempotencyKeys;
use crate::state::limits::{Limits, SharedLimit};
use crate::workers::fleet::Fleet;

/// A gateway.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) fleet: Fleet,
    pub(crate) affinity: Affinity,
    pub(crate) retries: RetryBudget,
    pub(crate) lateness: Lateness,
    pub(crate) questions: Questions,
    pub(crate) mcp: McpState,
    pub(crate) circuits: Circuits,
    pub(crate) keys: Arc<IdempotencyKeys>,
    admission: Arc<Admission>,
    pub(crate) observer: Arc<Observer>,
    /// Who may use it. None: everybody.
    pub(crate) registry: Option<Arc<Registry>>,
    /// What is kept for principals.
    pub(crate) limits: Limits,
    /// The same of operators: on their own listener, and of administrators' requests anywhere.
    pub(crate) operators: Limits,
    /// Where large requests and answers are read.
    pub(crate) aside: Aside,
    /// Calls that continue without their clients, and connections that linger.
    pub(crate) tasks: TaskTracker,
    /// The agent in this process. It owns what calls this gateway, so it is not owned here.
    agent: OnceLock<Weak<Hosted>>,
    /// Whether an operator drained the gateway.
    drained: watch::Sender<bool>,
    /// Cancelled when the gateway is told to shut down: it reports that it is not ready, and still takes calls for a while.
    pub(crate) leaving: CancellationToken,
    /// Cancelled when the gateway shuts down: it takes nothing new from then on.
    pub(crate) shutdown: CancellationToken,
}

/// One shard's view of the gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) gateway: Arc<Gateway>,
    /// Selects the shard's own connection to each worker.
    pub(crate) number: usize,
}

impl Gateway {
    /// # Errors
    /// The recorder can't be started, or the store of tasks can't be opened.
    pub(crate) fn new(config: Config, shutdown: CancellationToken) -> std::io::Result<Arc<Self>> {
        let recorder = config.recorder.as_ref().map(Recorder::start).transpose()?;
        Self::recorded_by(recorder, config, shutdown)
    }

    /// One whose calls this recorder keeps, if there is one, whatever the configuration says of it.
    ///
    /// # Errors
    /// The store of tasks can't be opened.
    pub(crate) fn recorded_by(
        recorder: Option<Recorder>,
        config: Config,
        shutdown: CancellationToken,
    ) -> std::io::Result<Arc<Self>> {
        let observer = Arc::new(Observer { recorder, ..Observer::new(config.measured_skills, config.tracer.clone()) });
        let limits = Limits::default();
        let agents = Agents::new(config.agent.as_ref().map(|setup| setup.models.clone()));
        Ok(Arc::new(Self {
            aside: Aside::new(limits.pool(SharedLimit::Requests).clone()),
            catalog: Catalog::new(agents, Arc::clone(&observer.metrics.skills)),
            fleet: Fleet::default(),
            affinity: Affinity::default(),
            retries: RetryBudget::default(),
            lateness: Lateness::default(),
            questions: Questions::default(),
            mcp: McpState::new(
                config.mcp_secret.as_ref().map(|it| it.0.as_slice()),
                tasks(&config.mcp_tasks)?,
                config.mcp_views.clone(),
                config.mcp_resumable,
                &limits,
            ),
            circuits: Circuits::new(config.circuits, Arc::clone(&observer)),
            keys: IdempotencyKeys::new(config.idempotency_lifetime),
            admission: Admission::new(config.max_in_flight, config.max_in_flight_of_skill),
            observer,
            registry: config.identity.clone().map(|it| Arc::new(Registry::new(it))),
            limits,
            operators: Limits::default(),
            tasks: TaskTracker::new(),
            agent: OnceLock::new(),
            drained: watch::Sender::new(false),
            leaving: CancellationToken::new(),
            shutdown,
            config,
        }))
    }

    /// What a principal holds of a kind of thing from now on: nothing yet.
    pub(crate) fn share(&self, kept: SharedLimit, principal: &Principal) -> Share {
        self.limits.pool(kept).share(principal.shared_name())
    }

    /// Admits a call, or says why not. Refusals are not counted: the caller may wait and ask again.
    pub(crate) fn try_admit(&self, call: &Call) -> Result<Permit, Refusal> {
        let (id, principal) = (&call.skill_id, &call.principal);
        self.check_open(principal)?;
        // A busy skill that does not exist for the principal must look like one that nobody has.
        let exists = principal.sees_all() || self.catalog.get_for(id, principal).is_some();
        let skill = if exists { id.as_str() } else { "" };
        let permit = self.admission.admit(call, skill, self.workers_limit()).map_err(Refusal::Full)?;
        // Last, so that a call which the gateway has no room for takes no token of its principal.
        let held = principal.begin(&call.session_id, call.input.size()).map_err(Refusal::Principal)?;
        principal.note_admitted();
        Ok(permit.with(held))
    }

    /// Whether anything of this principal is admitted: its credential may have ended since its request began.
    fn check_open(&self, principal: &Principal) -> Result<(), Refusal> {
        match () {
            () if !principal.is_valid() => Err(Refusal::Revoked),
            () if *self.drained.borrow() => Err(Refusal::Drained),
            () => Ok(()),
        }
    }

    /// Admits a question to a worker that is no call, of a session, to an owner, of so many bytes. Counts the refusal if it does
    /// not.
    pub(crate) fn admit_consult(
        &self,
        principal: &Principal,
        claim: (&str, &str, usize),
        trace_id: &str,
    ) -> Result<Permit, SkillError> {
        self.try_admit_consult(principal, claim).map_err(|refusal| {
            self.count_refusal(refusal, principal, ("a question to a worker", trace_id));
            refusal.into()
        })
    }

    fn try_admit_consult(
        &self,
        principal: &Principal,
        (session_id, owner, bytes): (&str, &str, usize),
    ) -> Result<Permit, Refusal> {
        self.check_open(principal)?;
        let permit = self.admission.admit_consult((principal, session_id), owner, bytes, self.workers_limit());
        let permit = permit.map_err(Refusal::Full)?;
        let held = principal.begin(session_id, bytes).map_err(Refusal::Principal)?;
        Ok(permit.with(held))
    }

    /// Admits a call, and counts the refusal if it does not.
    pub(crate) fn admit(&self, call: &Call) -> Result<Permit, Refusal> {
        self.try_admit(call).inspect_err(|refusal| self.count(*refusal, call))
    }

    /// Counts a refusal that the caller gets.
    pub(crate) fn count(&self, refusal: Refusal, call: &Call) {
        self.count_refusal(refusal, &call.principal, (&call.skill_id, &call.trace.id));
    }

    /// The same of what is no call.
    fn count_refusal(&self, refusal: Refusal, principal: &Principal, (asked, trace_id): (&str, &str)) {
        match refusal {
            Refusal::Drained => {}
            Refusal::Revoked => audit::unauthenticated(asked, "credential that has ended", trace_id),
            Refusal::Full(bound) => self.observer.call_refused(bound.name()),
            Refusal::Principal(exceeded) => {
                self.observer.call_refused(exceeded.limit.name());
                audit::limited(principal.name(), exceeded.limit, asked, trace_id);
            }
        }
    }

    /// The principal of work without a request, such as an agent's turn: with the rights that the credential of this name has
    /// now, and with none if it is no longer valid.
    pub(crate) fn principal(&self, name: &str, credential: &str) -> Principal {
        match &self.registry {
            None => Principal::of(name),
            Some(registry) => registry
                .find(name, credential, Timestamp::now())
                .map_or_else(|| Principal::nobody(name), |it| Principal::granted(Grant::new(it))),
        }
    }

    /// Notes for log and metrics whether a refused call names a skill that exists.
    pub(crate) fn note_skill(&self, call: &Call, record: &CallRecord) {
        if let Some(entry) = self.catalog.get_for(&call.skill_id, &call.principal) {
            record.found_skill(&entry.series);
            record.found_secrets(entry.definition.secrets());
        }
    }

    /// From now on, `agent` runs the skills that are agents.
    pub(crate) fn use_agent(&self, agent: &Arc<Hosted>) {
        // A gateway has one. If it was set before, that is the one.
        let _ = self.agent.set(Arc::downgrade(agent));
    }

    /// Who runs skills that are agents, if this gateway does.
    pub(crate) fn agent(&self) -> Option<Arc<Hosted>> {
        self.agent.get()?.upgrade()
    }

    /// Calls that hold a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// All metrics now. Takes milliseconds if there are many skills.
    pub(crate) fn metrics(&self) -> Snapshot {
        let skills = self.catalog.snapshot();
        let certificate = |name, ends, is_stale| CertificateGauge { name, ends, is_stale };
        let public = self.config.tls.as_ref().map(|it| certificate("public", it.expiry(), it.is_stale()));
        let mesh = self.config.mesh.as_ref().map(|it| certificate("mesh", it.expiry(), it.is_stale()));
        self.observer.metrics.snapshot(&Gauges {
            in_flight: self.in_flight(),
            limit: self.workers_limit(),
            workers_known: self.fleet.all().len(),
            workers_up: self.fleet.up(),
            workers_ejected: self.fleet.ejected(),
            skills: skills.len(),
            callable: callable(&skills),
            circuits: self.circuits.not_closed(),
            session_circuits: self.circuits.of_sessions(),
            view_failures: self.mcp.views.failures.get(),
            certificates: public.into_iter().chain(mesh).collect(),
        })
    }

    /// The workers' concurrency limit, all together, if it is adaptive.
    fn workers_limit(&self) -> Option<usize> {
        if self.config.adaptive_limit { self.fleet.limit() } else { None }
    }

    /// Drains the gateway on an operator's behalf, or resumes. Calls in flight finish either way.
    pub(crate) fn drain(&self, drained: bool) {
        self.drained.send_replace(drained);
    }

    /// Whether an operator drained the gateway, now and at each change.
    pub(crate) fn drained(&self) -> watch::Receiver<bool> {
        self.drained.subscribe()
    }

    /// Whether it serves calls: a worker is up, and the gateway neither drains nor shuts down.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.has_workers()
    }

    /// Whether a worker is up.
    pub(crate) fn has_workers(&self) -> bool {
        self.fleet.up() > 0
    }

    /// Whether clients should call another gateway: it takes no new calls, or soon won't.
    pub(crate) fn is_draining(&self) -> bool {
        self.leaving.is_cancelled() || *self.drained.borrow()
    }

    /// Reports from now on that the gateway is not ready, and waits until load balancers had time to notice.
    pub(crate) async fn leave(&self) {
        self.leaving.cancel();
        tokio::time::sleep(self.config.lame_duck).await;
    }
}

/// Opens the store of tasks. A file that nobody chose is done without if it can't be used.
fn tasks(config: &TasksConfig) -> std::io::Result<Tasks> {
    let times = Times { after: config.after, ttl: config.lifetime };
    let opened = match Tasks::open(config.file.as_deref(), times) {
        Err(error) if config.is_default => {
            tracing::info!(%error, "tasks of MCP clients are kept in memory: their default file cannot be opened, perhaps because another gateway has it");
            Tasks::open(None, times)
        }
        opened => opened,
    };
    opened.map_err(std::io::Error::other)
}

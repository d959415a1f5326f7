//! The state of a gateway, which its shards share.

use std::sync::{Arc, OnceLock, Weak};

use openskill_agent::hosted::Hosted;
use openskill_identity::shares::Share;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::SkillError;
use openskill_telemetry::metrics::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::arguments::secrets::Secrets;
use crate::call::blocking_pool::BlockingPool;
use crate::call::principal::Principal;
use crate::call::request::Call;
use crate::catalog::Catalog;
use crate::catalog::agents::Agents;
use crate::catalog::lookup::{self, Route};
use crate::catalog::snapshot::callable;
use crate::catalog::traffic::TrafficRules;
use crate::config::Config;
use crate::dispatch::affinity::{Affinity, AffinityKey};
use crate::dispatch::budget::RetryBudget;
use crate::dispatch::lateness::Lateness;
use crate::dispatch::questions::Questions;
use crate::identity::audit;
use crate::identity::grant::Grant;
use crate::identity::registry::Registry;
use crate::long_running::LongRunning;
use crate::mcp::McpState;
use crate::observe::Observer;
use crate::observe::call_record::CallRecord;
use crate::observe::metrics::{CertificateGauge, Gauges};
use crate::observe::recorder::Recorder;
use crate::protect::admission::{Admission, AdmissionRefusal, Claim, Permit};
use crate::protect::circuit::Circuits;
use crate::protect::idempotency::IdempotencyKeys;
use crate::protect::in_flight::CallsInFlight;
use crate::state::limits::{Limits, SharedLimit};
use crate::workers::fleet::Fleet;

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
    /// Calls that outlive their callers and this process.
    pub(crate) long_running: Arc<LongRunning>,
    admission: Arc<Admission>,
    pub(crate) calls: Arc<CallsInFlight>,
    pub(crate) observer: Arc<Observer>,
    /// Who may use it. If None, everyone.
    pub(crate) registry: Option<Arc<Registry>>,
    /// Limits the state that is kept for principals.
    pub(crate) limits: Limits,
    /// Separate limits for operators: requests on the admin listener, and administrators' requests on any listener.
    pub(crate) operators: Limits,
    /// Parses large requests and responses off the shards' threads.
    pub(crate) blocking_pool: BlockingPool,
    /// Calls that continue without their clients, and connections that linger.
    pub(crate) tasks: TaskTracker,
    /// The agent in this process. Weak, because the agent owns a client of this gateway.
    agent: OnceLock<Weak<Hosted>>,
    /// Whether an operator drained the gateway.
    drained: watch::Sender<bool>,
    /// Cancelled when a shutdown begins: the gateway reports that it is not ready, but accepts calls for
    /// [`Config::lame_duck`].
    pub(crate) leaving: CancellationToken,
    /// Cancelled when the gateway stops accepting anything new.
    pub(crate) shutdown: CancellationToken,
}

/// What one shard needs of the gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) gateway: Arc<Gateway>,
    /// The index of this shard's connection to each worker.
    pub(crate) number: usize,
}

impl Gateway {
    /// Creates a gateway and starts its recorder.
    ///
    /// # Errors
    /// The recorder can't be started, or the traffic rules can't be opened.
    pub(crate) fn new(config: Config, shutdown: CancellationToken) -> std::io::Result<Arc<Self>> {
        let recorder = config.recorder.as_ref().map(Recorder::start).transpose()?;
        Self::with_recorder(recorder, config, shutdown)
    }

    /// Creates a gateway with this recorder, ignoring the recorder's configuration.
    ///
    /// # Errors
    /// The traffic rules can't be opened.
    pub(crate) fn with_recorder(
        recorder: Option<Recorder>,
        config: Config,
        shutdown: CancellationToken,
    ) -> std::io::Result<Arc<Self>> {
        let observer = Arc::new(Observer { recorder, ..Observer::new(config.measured_skills, config.tracer.clone()) });
        let limits = Limits::default();
        let traffic = TrafficRules::load(config.traffic_file.as_deref())?;
        let agents = Agents::new(config.agent.as_ref().map(|setup| setup.models.clone()));
        Ok(Arc::new(Self {
            blocking_pool: BlockingPool::new(limits.pool(SharedLimit::Requests).clone()),
            catalog: Catalog::new(agents, Arc::clone(&observer.metrics.skills), traffic),
            fleet: Fleet::default(),
            affinity: Affinity::default(),
            retries: RetryBudget::default(),
            lateness: Lateness::default(),
            questions: Questions::default(),
            mcp: McpState::new(
                config.mcp_secret.as_ref().map(|it| it.0.as_slice()),
                config.mcp_views.clone(),
                config.mcp_resumable,
                &limits,
            ),
            circuits: Circuits::new(config.circuits, Arc::clone(&observer)),
            keys: IdempotencyKeys::new(config.idempotency_lifetime),
            long_running: Arc::new(LongRunning::new(config.operations.clone(), shutdown.clone())),
            admission: Admission::new(config.max_in_flight, config.max_in_flight_of_skill),
            calls: Arc::default(),
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

    /// Creates an empty share of one of the shared limits for `principal`.
    pub(crate) fn share(&self, kept: SharedLimit, principal: &Principal) -> Share {
        self.limits.pool(kept).share(principal.shared_name())
    }

    /// Admits a call, or returns why not. Does not count refusals, because the caller may wait and try again.
    pub(crate) fn try_admit(&self, call: &Arc<Call>) -> Result<Permit, AdmissionRefusal> {
        let (id, principal) = (&call.skill_id, &call.principal);
        // To a principal that may not see it, a busy skill must look nonexistent.
        let exists = principal.sees_all() || self.catalog.get_for(id, principal).is_some();
        let skill = if exists { id.as_str() } else { "" };
        let permit = self.grant(principal, &call.session_id, skill, call.input.size())?;
        principal.note_admitted();
        Ok(permit.with_listed(self.calls.list(call)))
    }

    /// Rejects a principal whose credential ended after its request began, and everyone while an operator drains
    /// the gateway. Otherwise grants a permit, if there is one.
    fn grant(
        &self,
        principal: &Principal,
        session_id: &str,
        skill: &str,
        bytes: usize,
    ) -> Result<Permit, AdmissionRefusal> {
        if !principal.is_valid() {
            return Err(AdmissionRefusal::Revoked);
        }
        if *self.drained.borrow() {
            return Err(AdmissionRefusal::Drained);
        }
        let claim = Claim::new(principal, session_id, skill, bytes);
        let permit = self.admission.grant(claim, self.workers_limit()).map_err(AdmissionRefusal::Full)?;
        // Last, so that a call for which the gateway has no room does not consume a token of its principal.
        let usage = principal.begin(session_id, bytes).map_err(AdmissionRefusal::Principal)?;
        Ok(permit.with_usage(usage))
    }

    /// Admits a request to a worker that is not a call, as if it were a call of its `owner`, which owns the requested
    /// item: a skill or an MCP server. `bytes` is the size of the parameters. Counts a refusal.
    pub(crate) fn admit_consult(
        &self,
        principal: &Principal,
        session_id: &str,
        owner: &str,
        bytes: usize,
        trace_id: &str,
    ) -> Result<Permit, SkillError> {
        self.grant(principal, session_id, owner, bytes).map_err(|refusal| {
            self.count_refusal(refusal, principal, "a question to a worker", trace_id);
            refusal.into()
        })
    }

    /// Admits a call, or counts the refusal.
    pub(crate) fn admit(&self, call: &Arc<Call>) -> Result<Permit, AdmissionRefusal> {
        self.try_admit(call).inspect_err(|refusal| self.count(*refusal, call))
    }

    /// Counts a refusal that is returned to the caller.
    pub(crate) fn count(&self, refusal: AdmissionRefusal, call: &Call) {
        self.count_refusal(refusal, &call.principal, &call.skill_id, &call.trace.id);
    }

    /// Counts a refusal of a call or of another request. `asked` names the skill or the other item.
    fn count_refusal(&self, refusal: AdmissionRefusal, principal: &Principal, asked: &str, trace_id: &str) {
        match refusal {
            AdmissionRefusal::Drained => {}
            AdmissionRefusal::Revoked => audit::log_unauthenticated(asked, "revoked or expired credential", trace_id),
            AdmissionRefusal::Full(bound) => self.observer.metrics.refusals.inc(bound.name()),
            AdmissionRefusal::Principal(exceeded) => {
                self.observer.metrics.refusals.inc(exceeded.limit.name());
                audit::log_limited(principal.name(), exceeded.limit, asked, trace_id);
            }
        }
    }

    /// Returns the principal of work without a request, such as an agent's turn. It has the current rights of the
    /// credential with this name, or no rights if the credential is no longer valid.
    pub(crate) fn principal(&self, name: &str, credential: &str) -> Principal {
        match &self.registry {
            None => Principal::from_name(name),
            Some(registry) => registry
                .find(name, credential, Timestamp::now())
                .map_or_else(|| Principal::nobody(name), |it| Principal::from_grant(Grant::new(it))),
        }
    }

    /// Returns where a call goes now. None if it would be refused.
    pub(crate) fn find_route(&self, call: &Call) -> Option<Route> {
        lookup::route(&self.catalog, call).map(|it| self.follow_session(it, call))
    }

    /// Keeps the call of a session with the session's worker under a traffic rule, in a version that this worker runs.
    /// Calls that name or approved a version are unchanged.
    pub(crate) fn follow_session(&self, route: Route, call: &Call) -> Route {
        let is_fixed = route.version.is_empty() || !call.version.is_empty() || !call.definition_hash.is_empty();
        let key = if is_fixed { None } else { AffinityKey::for_call(call, &route.entry.skill) };
        match key.and_then(|key| self.affinity.holder(&key)) {
            Some(instance) => route.follow(&instance, &self.catalog, call),
            None => route,
        }
    }

    /// Records the skill of a refused call for log and metrics, if the skill exists.
    pub(crate) fn note_skill(&self, call: &Call, record: &CallRecord) {
        if let Some(Route { entry, .. }) = self.find_route(call) {
            record.set_skill(&entry.series, entry.definition.secrets());
        } else if let Some(listed) = self.catalog.get_for(&call.skill_id, &call.principal) {
            // Which parameters of an unknown version are secret is unknown, too.
            record.set_skill(&listed.series, Some(&Arc::new(Secrets::everything())));
        }
    }

    /// Sets the agent that runs skills which are agents.
    pub(crate) fn use_agent(&self, agent: &Arc<Hosted>) {
        // A gateway has one agent. Keep one that was set before.
        let _ = self.agent.set(Arc::downgrade(agent));
    }

    /// The agent that runs skills which are agents, if this gateway has one.
    pub(crate) fn agent(&self) -> Option<Arc<Hosted>> {
        self.agent.get()?.upgrade()
    }

    /// The number of calls that have a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// Takes a snapshot of all metrics. With many skills, this takes milliseconds.
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
            workers_ejected: self.fleet.ejected_count(),
            skills: skills.len(),
            callable: callable(&skills),
            circuits: self.circuits.not_closed(),
            session_circuits: self.circuits.count_sessions(),
            view_failures: self.mcp.views.failures.get(),
            operations: self.long_running.gauges(),
            certificates: public.into_iter().chain(mesh).collect(),
        })
    }

    /// The total concurrency limit of all workers, if it is adaptive.
    fn workers_limit(&self) -> Option<usize> {
        if self.config.adaptive_limit { self.fleet.limit() } else { None }
    }

    /// Drains or resumes the gateway on an operator's behalf. Calls in flight finish in both cases. Returns whether
    /// this changes anything.
    pub(crate) fn drain(&self, drained: bool) -> bool {
        self.drained.send_replace(drained) != drained
    }

    /// Subscribes to whether an operator drained the gateway.
    pub(crate) fn watch_drained(&self) -> watch::Receiver<bool> {
        self.drained.subscribe()
    }

    /// Whether it serves calls: a worker is up, and the gateway is neither draining nor shutting down.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.has_workers()
    }

    /// Whether a worker is up.
    pub(crate) fn has_workers(&self) -> bool {
        self.fleet.up() > 0
    }

    /// Whether clients should call another gateway: this one accepts no new calls, or soon won't.
    pub(crate) fn is_draining(&self) -> bool {
        self.leaving.is_cancelled() || *self.drained.borrow()
    }

    /// Reports that the gateway is not ready, and waits until load balancers had time to notice.
    pub(crate) async fn leave(&self) {
        self.leaving.cancel();
        tokio::time::sleep(self.config.lame_duck).await;
    }
}

-- job_dispatch: for each job choose a node of a pool, lease one of its slots and write the job's record, atomically.
-- It samples a few members first and searches the whole shard before it replies full. The least loaded node wins, ties
-- are broken at random. The record is written before any frame is sent.
-- Circuit breaker: a quarantined node gets a single probe job when its time is up, or any job if every other node is
-- quarantined too, so that a small fleet keeps working. A node that lacks a service gets no job that needs it.
-- The nodes of a pair are those of its pool and of the wide pools that serve it. The caller names wide pools whose nodes
-- serve all that the jobs need, so these nodes need not be in any other pool. Usually there is none.
-- Jobs of a batch share the reads and the writes to the ledger: first all nodes are chosen, then the slots are leased,
-- then the records are written. Each job occurs once.
-- Replies: of each job: dispatched node owner, separated by spaces | full | exhausted (every member is excluded) | nobody (no member is in all pools)
--          | sick (only quarantined nodes are free, and another shard may have better ones)
--          | busy (`only`, and the preferred node has no slot)
--          | unfit (`only`, and the preferred node is gone or does not serve this)
--          | stale (the job has ended, or another attempt of it is live)
-- include: clock
-- include: number
-- include: words
-- include: record
-- include: node_health
-- include: random_members
-- include: fleet
-- include: orders
-- include: members
-- include: least_loaded
-- include: node_search
local pool       = KEYS[1]   -- set of node ids
local seen       = KEYS[2]   -- zset node -> alive until
local free       = KEYS[3]   -- zset node -> free slots
local held       = KEYS[4]   -- zset node -> live leases
local limits     = KEYS[5]   -- hash node -> slots
local owners     = KEYS[6]   -- hash node -> epoch instance connection features
local leases     = KEYS[7]   -- zset lease -> deadline
local sick       = KEYS[8]   -- zset node -> quarantined until, node service -> unavailable until
local recent     = KEYS[9]   -- stream of recent jobs
local queues     = KEYS[10]  -- hash node -> jobs that wait for its GPU, only nodes that have some
local job_keys   = {unpack(KEYS, 11)}  -- strings, the jobs' records; then sets their nodes must be in too; then wide pools
local sample     = ARGV[1]   -- how many members to look at first
local sample_k   = ARGV[2]   -- how many to sample next, before all of them
local ack_ms     = ARGV[3]   -- lease until an acknowledgement
local keep_ms    = ARGV[4]
local before     = ARGV[5]   -- states in which a job may be reserved
local live       = ARGV[6]   -- states of a job that has a live attempt
local state      = ARGV[7]   -- the state it is written with
local dice       = ARGV[8]   -- random number from the caller, because Redis seeds every script alike
local most       = ARGV[9]   -- approximate maximum length of `recent`
local pool_name  = ARGV[10]
local also_names = ARGV[11]  -- of the other pools
local instance   = ARGV[12]  -- the caller
local needs      = ARGV[13]  -- kinds of service the jobs need
local last       = ARGV[14]  -- 1: a quarantined node is better than none
local wides      = ARGV[15]  -- how many of the last keys are wide pools
local now_ms     = ARGV[16]
local orders     = {unpack(ARGV, 17)}  -- of each job: job attempt run_ms utterance wish; session; perhaps whom it belongs to, and of which tenant

math.randomseed(dice)
local moment = clock(now_ms)
local at_ms, first_wide = string.format('%.0f', moment), #job_keys - wides + 1
-- Usually none of these exists, and one call says so.
local found = redis.call('EXISTS', sick, queues, unpack(job_keys, 1, #orders))
local some_are_sick, some_queue = found > 0 and redis.call('EXISTS', sick) == 1, found > 0 and redis.call('EXISTS', queues) == 1
local some_are_known = found > (some_are_sick and 1 or 0) + (some_queue and 1 or 0)
local pools = {sets = {pool, unpack(job_keys, first_wide)}, also = {unpack(job_keys, #orders + 1, first_wide - 1)},
  in_wide = {}, sample = tonumber(sample), sample_k = tonumber(sample_k), orders = #orders}
local fleet = {nodes = {}, taken = {}, moment = moment,
  seen = seen, free = free, held = held, limits = limits, owners = owners,
  queues = some_queue and queues, sick = some_are_sick and sick, needs = some_are_sick and words(needs)}

local replies, records, leased, begun = {}, {}, {}, {}
local order, record = {}, {state = state, dispatched_ms = at_ms, owner = instance, pool = pool_name}
for i, text in ipairs(orders) do
  read_order(text, order)
  local known = some_are_known and read_record(job_keys[i])
  local chosen, reply = nil, known and reply_again(order, known, before, live, owners, leases)
  if not reply then chosen, reply = choose(order, fleet, pools, last == '1') end
  if chosen then
    local attempt, run_ms, node = order.attempt, order.run_ms, take_slot(chosen, order.run_ms, fleet)
    leased[#leased + 1] = moment + (node.acks == '1' and ack_ms or run_ms)
    leased[#leased + 1] = order.job .. '#' .. attempt .. '#' .. chosen
    -- It is here (again), wherever it was meanwhile.
    record.rest = known and with_line(known.rest, 'moved_to', '') or also_names == '' and '' or '\nalso ' .. also_names
    if order.belongs_to ~= '' and not known then record.rest = record.rest .. '\nbelongs_to ' .. order.belongs_to end
    record.attempt, record.node, record.epoch, record.run_ms = attempt, chosen, node.epoch, run_ms
    record.utterance, record.session = order.utterance, order.session
    move(record, state, at_ms, '')
    records[i] = record_text(record)
    if not known and attempt == '1' then
      local at = #begun
      begun[at + 1], begun[at + 2], begun[at + 3], begun[at + 4] = 'job', order.job, 'session', order.session
    end
    reply = 'dispatched ' .. chosen .. ' ' .. node.owner
  end
  replies[i] = reply
end
if #leased == 0 then return replies end

redis.call('ZADD', leases, unpack(leased))
write_slots(fleet)
for i, text in pairs(records) do redis.call('SET', job_keys[i], text, 'PX', keep_ms) end
-- For people alone: a list that takes no more entries must not undo what is done.
if #begun > 0 then redis.pcall('XADD', recent, 'MAXLEN', '~', most, '*', unpack(begun)) end
return replies

-- job_dispatch: for each of some jobs choose a node of a pool, lease one of its slots and write the job, all or nothing.
-- Looks at a few members first and at the whole shard before it says full; of those that can, the least loaded wins,
-- and chance decides between equals. The record is written before any frame leaves.
-- A quarantined node gets a single job when its time is up, to prove itself; or when every other one is as bad, because
-- a small fleet must not go dark. A node that lacks a service gets no job that needs it.
-- The nodes of a pair are those of its pool and of the wide pools that serve it. The caller names wide pools whose nodes
-- serve all that the jobs need, so these nodes need not be in any other pool. Usually there is none.
-- Jobs that were asked for together share what is read and the writes to the ledger: first all are chosen for, then
-- the slots are leased, then the records are written. No job comes twice.
-- Replies: of each job: dispatched node owner, as one word after the other | full | exhausted (every member is excluded) | nobody (no member is in all pools)
--          | sick (only quarantined nodes could, and there may be better ones elsewhere)
--          | busy (`only`, and the preferred node has no slot)
--          | unfit (`only`, and the preferred node is gone or does not serve this)
--          | stale (the job has ended, or another attempt of it is live)
-- include: clock
-- include: words
-- include: record
-- include: ailing
-- include: drawing
local pool       = KEYS[1]   -- set of node ids
local seen       = KEYS[2]   -- zset node -> alive until
local free       = KEYS[3]   -- zset node -> free slots
local held       = KEYS[4]   -- zset node -> live leases
local limits     = KEYS[5]   -- hash node -> slots
local owners     = KEYS[6]   -- hash node -> epoch instance connection features
local leases     = KEYS[7]   -- zset lease -> deadline
local sick       = KEYS[8]   -- zset node -> quarantined until, node service -> unavailable until
local recent     = KEYS[9]   -- stream, the jobs that began here lately
local queues     = KEYS[10]  -- hash node -> jobs that wait for its GPU, only nodes that have some
local job_keys   = {unpack(KEYS, 11)}  -- strings, the jobs' records; then sets their nodes must be in too; then wide pools
local sample     = ARGV[1]   -- how many members to look at first
local sample_k   = ARGV[2]   -- and then, before all of them
local ack_ms     = ARGV[3]   -- lease until an acknowledgement
local keep_ms    = ARGV[4]
local before     = ARGV[5]   -- states in which a job may be reserved
local live       = ARGV[6]   -- states of a job that has a live attempt
local state      = ARGV[7]   -- the state it is written with
local dice       = ARGV[8]   -- Redis seeds every script alike, so chance comes from outside
local most       = ARGV[9]   -- how many entries of recent jobs are kept, about
local pool_name  = ARGV[10]
local also_names = ARGV[11]  -- of the other pools
local instance   = ARGV[12]  -- who asks
local needs      = ARGV[13]  -- kinds of service the jobs need
local last       = ARGV[14]  -- 1: a quarantined node is better than none
local wides      = ARGV[15]  -- how many of the last keys are wide pools
local now_ms     = ARGV[16]
local orders     = {unpack(ARGV, 17)}  -- of each job: job attempt run_ms utterance wish, and in a second line session

local count = #orders
local also = {unpack(job_keys, count + 1, #job_keys - wides)}
local wide = {unpack(job_keys, #job_keys - wides + 1)}
local has_wide = #wide > 0
local sets = has_wide and {pool, unpack(wide)}
math.randomseed(dice)
local moment = clock(now_ms)
-- Usually nobody is sick, and then nobody is asked about.
local some_are_sick = redis.call('EXISTS', sick) == 1
local some_queue = redis.call('EXISTS', queues) == 1

-- What is known of the nodes that were looked at; of slots and leases, with what is given to them here.
local alive, open, running, allowed, owner_of, queued = {}, {}, {}, {}, {}, {}
local function look_at(nodes)
  local strange = {}
  for _, node in ipairs(nodes) do
    if not alive[node] then strange[#strange + 1] = node end
  end
  if #strange == 0 then return end
  local until_ms = redis.call('ZMSCORE', seen, unpack(strange))
  local slots = redis.call('ZMSCORE', free, unpack(strange))
  local leased = redis.call('ZMSCORE', held, unpack(strange))
  local limit = redis.call('HMGET', limits, unpack(strange))
  local owner = redis.call('HMGET', owners, unpack(strange))
  local queue = some_queue and redis.call('HMGET', queues, unpack(strange)) or {}
  for i, node in ipairs(strange) do
    alive[node], open[node], running[node] = tonumber(until_ms[i] or 0), tonumber(slots[i] or nil), tonumber(leased[i] or 0)
    allowed[node], owner_of[node] = tonumber(limit[i] or nil) or open[node] or 0, owner[i]
    queued[node] = tonumber(queue[i] or 0) or 0
  end
end

-- Nodes that come from a wide pool.
local in_wide = {}
local function in_all(found)
  for _, other in ipairs(also) do
    if #found == 0 then return found end
    local both, inside = {}, redis.call('SMISMEMBER', other, unpack(found))
    for i, node in ipairs(found) do
      if inside[i] == 1 or in_wide[node] then both[#both + 1] = node end
    end
    found = both
  end
  return found
end

-- Of one job, while it is chosen for.
local none = {}
local needed = some_are_sick and words(needs)
local out, some_are_well, quarantined, due, lacking
local function least_loaded(candidates, even_quarantined)
  if #candidates == 0 then return nil end
  if some_are_sick then quarantined, due, lacking = ailing(candidates, needed, moment, sick) end
  look_at(candidates)
  local best, best_load, equals = nil, math.huge, 0
  for _, node in ipairs(candidates) do
    local slots = open[node]
    local is_fit = not out[node] and owner_of[node] and alive[node] > moment and not lacking[node]
    if is_fit and slots and not quarantined[node] then some_are_well = true end
    if is_fit and slots and slots > 0 and (even_quarantined or not quarantined[node]) then
      -- What waits for a node's GPU is load too, whoever gave it.
      local load = 1 - (slots - queued[node]) / allowed[node]
      if load < best_load then
        best, best_load, equals = node, load, 1
      elseif load == best_load then
        equals = equals + 1
        if math.random(equals) == 1 then best = node end
      end
    end
  end
  return best
end

local function some(count)
  if has_wide then return draw(sets, count, in_wide) end
  return redis.call('SRANDMEMBER', pool, count)
end

local function everybody()
  local found = redis.call('SMEMBERS', pool)
  for _, set in ipairs(wide) do
    for _, node in ipairs(redis.call('SMEMBERS', set)) do found[#found + 1], in_wide[node] = node, true end
  end
  return found
end

local function is_member(node)
  if redis.call('SISMEMBER', pool, node) == 1 then return true end
  for _, set in ipairs(wide) do
    if redis.call('SISMEMBER', set, node) == 1 then
      in_wide[node] = true
      return true
    end
  end
end

-- A few members by chance; those of a batch come from one draw.
sample, sample_k = tonumber(sample), tonumber(sample_k)
local drawn
local function a_few()
  if not drawn then
    drawn = some(math.min(sample * count, math.max(sample, sample_k)))
    look_at(drawn)
  end
  if #drawn <= sample then return drawn end
  local few, first = {}, math.random(#drawn)
  for i = 0, sample - 1 do few[i + 1] = drawn[(first + i - 1) % #drawn + 1] end
  return few
end

-- The node of one job, or nil and the reason.
local function choose(preferred, only)
  local chosen
  if preferred ~= '-' and is_member(preferred) then
    local fit = in_all({preferred})
    chosen = least_loaded(fit)
    if not chosen and only == '1' and #fit == 1 and not out[preferred]
      and not quarantined[preferred] and not lacking[preferred] and alive[preferred] > moment then return nil, 'busy' end
  end
  if chosen then return chosen end
  if only == '1' then return nil, 'unfit' end
  local looked = a_few()
  chosen = least_loaded(in_all(looked))
  if chosen then return chosen end
  if #looked == 0 then return nil, 'nobody' end
  if #looked == sample then looked = some(sample_k) end
  chosen = least_loaded(in_all(looked))
  if not chosen and #looked == sample_k then
    looked = everybody()
    chosen = least_loaded(in_all(looked))
  end
  if not chosen and some_are_sick and not some_are_well then
    chosen = least_loaded(in_all(looked), true)
    if chosen and last ~= '1' then return nil, 'sick' end
  end
  if chosen then return chosen end
  -- By now everybody in the pool has been looked at.
  local fit = in_all(looked)
  if #fit == 0 then return nil, 'nobody' end
  for _, node in ipairs(fit) do
    if not out[node] then return nil, 'full' end
  end
  return nil, 'exhausted'
end

-- A job that is known already: the same attempt again, whose answer got lost, or one that is over.
local some_are_known = redis.call('EXISTS', unpack(job_keys, 1, count)) > 0
local function answer_for(known, job, attempt)
  look_at({known.node})
  if known.attempt == attempt and string.match(owner_of[known.node] or '', '^%d+ %S+ %S+ %d') and string.find(live, known.state, 1, true)
    and redis.call('ZSCORE', leases, job .. '#' .. attempt .. '#' .. known.node) then
    return 'dispatched ' .. known.node .. ' ' .. owner_of[known.node]
  elseif not string.find(before, known.state, 1, true) or tonumber(known.attempt) >= tonumber(attempt) then
    return 'stale'
  end
end

local replies, placed, leased, begun, touched = {}, {}, {}, {}, {}
local at_ms = string.format('%.0f', moment)
for i = 1, count do
  -- wish: empty, or the preferred node, 1 if it is that or nobody, then nodes that are excluded; - for no node
  local job, attempt, run_ms, utterance, wish, session = string.match(orders[i],
    '^(%S+) (%S+) (%S+) (%S+) ([^\n]*)\n(.*)$')
  local known = some_are_known and read_record(job_keys[i])
  replies[i] = known and answer_for(known, job, attempt)
  if not replies[i] then
    out, some_are_well, quarantined, due, lacking = none, false, none, none, none
    local preferred, only = '-', '0'
    if wish ~= '' then
      out = {}
      for place, word in ipairs(words(wish)) do
        if place == 1 then preferred = word elseif place == 2 then only = word else out[word] = true end
      end
    end
    local chosen, why = choose(preferred, only)
    -- A node whose owner is missing or cannot be read is as good as dead: the next best one is taken.
    while chosen and not string.match(owner_of[chosen] or '', '^%d+ %S+ %S+ %d') do
      alive[chosen] = 0
      chosen, why = choose(preferred, only)
    end
    replies[i] = why
    if chosen then
      -- The one probe: nobody else gets this node before there is a verdict, or its time is up.
      if due[chosen] then redis.call('ZADD', sick, moment + run_ms, chosen) end
      local epoch, acks = string.match(owner_of[chosen], '^(%d+) %S+ %S+ (%d)')
      leased[#leased + 1] = moment + (acks == '1' and ack_ms or run_ms)
      leased[#leased + 1] = job .. '#' .. attempt .. '#' .. chosen
      open[chosen], running[chosen], touched[chosen] = open[chosen] - 1, running[chosen] + 1, true
      local rest = also_names == '' and '' or '\nalso ' .. also_names
      -- It is here (again), wherever it was meanwhile.
      if known then rest = with_line(known.rest, 'moved_to', '') end
      local record = {state = state, attempt = attempt, node = chosen, epoch = epoch, run_ms = run_ms, dispatched_ms = at_ms,
        utterance = utterance, owner = instance, pool = pool_name, session = session, rest = rest}
      move(record, state, at_ms, '')
      placed[i] = record
      if not known and attempt == '1' then
        for _, word in ipairs({'job', job, 'session', session}) do begun[#begun + 1] = word end
      end
      replies[i] = 'dispatched ' .. chosen .. ' ' .. owner_of[chosen]
    end
  end
end
if #leased == 0 then return replies end

redis.call('ZADD', leases, unpack(leased))
local free_now, held_now = {}, {}
for node in pairs(touched) do
  free_now[#free_now + 1], free_now[#free_now + 2] = open[node], node
  held_now[#held_now + 1], held_now[#held_now + 2] = running[node], node
end
redis.call('ZADD', free, unpack(free_now))
redis.call('ZADD', held, unpack(held_now))
for i, record in pairs(placed) do write_record(job_keys[i], record, keep_ms) end
-- For people alone: a list that takes no more entries must not undo what is done.
if #begun > 0 then redis.pcall('XADD', recent, 'MAXLEN', '~', most, '*', unpack(begun)) end
return replies

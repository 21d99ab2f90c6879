-- job_dispatch: choose a node of a pool, lease one of its slots and write the job, all or nothing.
-- Looks at a few members first and at the whole shard before it says full; of those that can, the least loaded wins,
-- and chance decides between equals. The record is written before any frame leaves.
-- A quarantined node gets a single job when its time is up, to prove itself; or when every other one is as bad, because
-- a small fleet must not go dark. A node that lacks a service gets no job that needs it.
-- Replies: dispatched node owner | full | exhausted (every member is excluded) | nobody (no member is in all pools)
--          | sick (only quarantined nodes could, and there may be better ones elsewhere)
--          | busy (`only`, and the preferred node has no slot)
--          | unfit (`only`, and the preferred node is gone or does not serve this)
--          | stale (the job has ended, or another attempt of it is live)
-- include: clock
-- include: words
-- include: history
-- include: ailing
local pool       = KEYS[1]   -- set of node ids
local seen       = KEYS[2]   -- zset node -> alive until
local free       = KEYS[3]   -- zset node -> free slots
local held       = KEYS[4]   -- zset node -> live leases
local limits     = KEYS[5]   -- hash node -> slots
local owners     = KEYS[6]   -- hash node -> epoch instance connection acknowledges
local leases     = KEYS[7]   -- zset lease -> deadline
local sick       = KEYS[8]   -- zset node -> quarantined until, node service -> unavailable until
local job_key    = KEYS[9]   -- hash, the job
local recent     = KEYS[10]  -- stream, the jobs that began here lately
local also       = {unpack(KEYS, 11)}   -- sets the node must be in too
local job        = ARGV[1]
local attempt    = ARGV[2]
local preferred  = ARGV[3]   -- node id or empty
local only       = ARGV[4]   -- 1: the preferred node or nobody
local excluded   = ARGV[5]   -- node ids
local needs      = ARGV[6]   -- kinds of service the job needs
local last       = ARGV[7]   -- 1: a quarantined node is better than none
local sample     = ARGV[8]   -- how many members to look at first
local sample_k   = ARGV[9]   -- and then, before all of them
local ack_ms     = ARGV[10]  -- lease until an acknowledgement
local run_ms     = ARGV[11]  -- lease of nodes that do not acknowledge
local keep_ms    = ARGV[12]
local before     = ARGV[13]  -- states in which a job may be reserved
local live       = ARGV[14]  -- states of a job that has a live attempt
local state      = ARGV[15]  -- the state it is written with
local dice       = ARGV[16]  -- Redis seeds every script alike, so chance comes from outside
local most       = ARGV[17]  -- how many recent jobs are kept, about
local session    = ARGV[18]
local now_ms     = ARGV[19]
local record     = {unpack(ARGV, 20)}  -- field, value, …

math.randomseed(dice)
local moment = clock(now_ms)
local known = redis.call('HMGET', job_key, 'state', 'attempt', 'node', 'steps')
if known[1] then
  -- A job that was written down while it waited has no node yet.
  local owner = known[3] and redis.call('HGET', owners, known[3])
  if known[2] == attempt and owner and string.find(live, known[1], 1, true)
    and redis.call('ZSCORE', leases, job .. '#' .. attempt .. '#' .. known[3]) then
    return {'dispatched', known[3], owner}
  end
  if not string.find(before, known[1], 1, true) or tonumber(known[2]) >= tonumber(attempt) then return {'stale'} end
end

local out = {}
if excluded ~= '' then
  for _, node in ipairs(words(excluded)) do out[node] = true end
end

-- Usually nobody is sick, and then nobody is asked about.
local some_are_sick = redis.call('EXISTS', sick) == 1
local needed = some_are_sick and words(needs)
local nobody, some_are_well = {}, false
local quarantined, due, lacking = nobody, nobody, nobody

local function least_loaded(candidates, even_quarantined)
  if #candidates == 0 then return nil end
  if some_are_sick then quarantined, due, lacking = ailing(candidates, needed, moment, sick) end
  local alive = redis.call('ZMSCORE', seen, unpack(candidates))
  local slots = redis.call('ZMSCORE', free, unpack(candidates))
  local allowed = redis.call('HMGET', limits, unpack(candidates))
  local best, best_load, equals = nil, 2, 0
  for i, node in ipairs(candidates) do
    local open = tonumber(slots[i] or 0)
    local is_fit = not out[node] and tonumber(alive[i] or 0) > moment and not lacking[node]
    if is_fit and slots[i] and not quarantined[node] then some_are_well = true end
    if is_fit and open > 0 and (even_quarantined or not quarantined[node]) then
      local load = 1 - open / tonumber(allowed[i] or open)
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

local function in_all(found)
  for _, other in ipairs(also) do
    if #found == 0 then return found end
    local both, inside = {}, redis.call('SMISMEMBER', other, unpack(found))
    for i, node in ipairs(found) do
      if inside[i] == 1 then both[#both + 1] = node end
    end
    found = both
  end
  return found
end

local chosen
if preferred ~= '' and redis.call('SISMEMBER', pool, preferred) == 1 then
  local fit = in_all({preferred})
  chosen = least_loaded(fit)
  if not chosen and only == '1' and #fit == 1 and not out[preferred]
    and not quarantined[preferred] and not lacking[preferred]
    and tonumber(redis.call('ZSCORE', seen, preferred) or 0) > moment then return {'busy'} end
end
if not chosen and only == '1' then return {'unfit'} end
if not chosen then
  local looked = redis.call('SRANDMEMBER', pool, sample)
  chosen = least_loaded(in_all(looked))
  if not chosen then
    if #looked == 0 then return {'nobody'} end
    if #looked == tonumber(sample) then looked = redis.call('SRANDMEMBER', pool, sample_k) end
    chosen = least_loaded(in_all(looked))
    if not chosen and #looked == tonumber(sample_k) then
      looked = redis.call('SMEMBERS', pool)
      chosen = least_loaded(in_all(looked))
    end
    if not chosen and some_are_sick and not some_are_well then
      chosen = least_loaded(in_all(looked), true)
      if chosen and last ~= '1' then return {'sick'} end
    end
    if not chosen then
      -- By now everybody in the pool has been looked at.
      local fit = in_all(looked)
      if #fit == 0 then return {'nobody'} end
      for _, node in ipairs(fit) do
        if not out[node] then return {'full'} end
      end
      return {'exhausted'}
    end
  end
end

-- The one probe: nobody else gets this node before there is a verdict, or its time is up.
if due[chosen] then redis.call('ZADD', sick, moment + run_ms, chosen) end
local owner = redis.call('HGET', owners, chosen)
local epoch, acks = string.match(owner, '^(%d+) %S+ %S+ (%d)')
redis.call('ZADD', leases, moment + (acks == '1' and ack_ms or run_ms), job .. '#' .. attempt .. '#' .. chosen)
redis.call('ZINCRBY', held, 1, chosen)
redis.call('ZINCRBY', free, -1, chosen)
local at_ms = string.format('%.0f', moment)
local steps, count, step, line = remembered(known[4], state, at_ms, attempt, chosen, '')
redis.call('HSET', job_key, 'state', state, 'attempt', attempt, 'node', chosen, 'epoch', epoch, 'run_ms', run_ms,
  'dispatched_ms', at_ms, steps, count, step, line, 'session', session, unpack(record))
redis.call('PEXPIRE', job_key, keep_ms)
if known[1] then
  -- It is here (again), wherever it was meanwhile.
  redis.call('HDEL', job_key, 'moved_to')
elseif attempt == '1' then
  redis.call('XADD', recent, 'MAXLEN', '~', most, '*', 'job', job, 'session', session)
end
return {'dispatched', chosen, owner}

-- attempt_end: some attempts are over; the leases that are removed by name are what makes this safe to repeat.
-- A node's word counts only with its epoch; a sweep ends what is overdue, in any epoch. An attempt that was given up
-- while its node may still run it keeps its slot for `linger_ms`, or until the node lets go of it.
-- First all that is known is read, then the slots are given back, then the records are written. No job comes twice.
-- Replies: of each attempt: ended verdict (on the node: quarantined, recovered or -) owner utterance session, as one word
--          after the other | stale
--          | alive (to be ended only if overdue, and it is not)
--          | repeated (the node has said so before; whoever asks may have missed the answer)
--          | gone (Redis knows nothing of the job: it lost its data, or forgot an old job)
-- include: clock
-- include: slots
-- include: history
-- include: judging
local leases    = KEYS[1]   -- zset lease -> deadline
local free      = KEYS[2]   -- zset node -> free slots, only nodes that take work
local held      = KEYS[3]   -- zset node -> live leases
local limits    = KEYS[4]   -- hash node -> slots
local trouble   = KEYS[5]   -- hash node -> its last outcomes, quarantines in a row, when the last began
local sick      = KEYS[6]   -- zset node -> quarantined until
local job_keys  = {unpack(KEYS, 7)}  -- hashes, the jobs
local rules     = ARGV[1]   -- of quarantine: failures window consecutive first_ms longest_ms
local overdue   = ARGV[2]   -- 1: only if its deadline has passed
local before    = ARGV[3]   -- states in which this may happen
local state     = ARGV[4]
local reason    = ARGV[5]
local linger_ms = ARGV[6]   -- 0: the slot is free at once
local mark      = ARGV[7]   -- o or x: what this says of the node; empty: nothing
local now_ms    = ARGV[8]
local ends      = {unpack(ARGV, 9)}  -- of each attempt the WORDS that are named below

local WORDS = 4
local moment = clock(now_ms)
local names, known, replies, over, given_back = {}, {}, {}, {}, {}
for i = 1, #job_keys do names[i] = ends[(i - 1) * WORDS + 1] end
local deadlines = redis.call('ZMSCORE', leases, unpack(names))
for i, job_key in ipairs(job_keys) do
  -- epoch empty: it is not the node that says so
  local lease, attempt, node, epoch = unpack(ends, (i - 1) * WORDS + 1, i * WORDS)
  local job = redis.call('HMGET', job_key, 'attempt', 'node', 'epoch', 'state', 'owner', 'session', 'utterance', 'steps',
    'dispatched_ms')
  local current = job[1] == attempt and job[2] == node and string.find(before, job[4], 1, true)
  if not deadlines[i] then
    local is_so = epoch ~= '' and job[1] == attempt and job[2] == node and job[3] == epoch and job[4] == state
    replies[i] = is_so and 'repeated' or job[1] and 'stale' or 'gone'
  elseif overdue == '1' and tonumber(deadlines[i]) > moment then
    replies[i] = 'alive'
  elseif current and epoch ~= '' and job[3] ~= epoch then
    replies[i] = 'stale'
  else
    if current and linger_ms ~= '0' then
      redis.call('ZADD', leases, moment + linger_ms, lease)
    else
      over[#over + 1] = lease
      given_back[node] = (given_back[node] or 0) + 1
    end
    -- A lease that outlived its attempt gives its slot back, but there is no job left to end.
    replies[i] = 'stale'
    known[i] = current and {job, attempt, node}
  end
end

if #over > 0 then redis.call('ZREM', leases, unpack(over)) end
for node, slots in pairs(given_back) do give_back(node, slots, free, held, limits) end
local at_ms = string.format('%.0f', moment)
for i, job_key in ipairs(job_keys) do
  if known[i] then
    local job, attempt, node = unpack(known[i])
    redis.call('HSET', job_key, 'state', state, 'reason', reason, 'ended_ms', at_ms,
      remembered(job[8], state, at_ms, attempt, node, reason))
    local verdict = mark == '' and '' or judge(node, mark, job[9], moment, rules, trouble, sick, limits)
    replies[i] = table.concat({'ended', verdict == '' and '-' or verdict, job[5] or '-', job[7] or '-1', job[6] or ''}, ' ')
  end
end
return replies

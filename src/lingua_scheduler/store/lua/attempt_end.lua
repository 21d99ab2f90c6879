-- attempt_end: some attempts are over; the leases that are removed by name are what makes this safe to repeat.
-- A node's word counts only with its epoch; a sweep ends what is overdue, in any epoch. An attempt that was given up
-- while its node may still run it keeps its slot for `linger_ms`, or until the node lets go of it.
-- First all that is known is read, then the slots are given back, then the records are written. No job comes twice.
-- Replies: of each attempt: ended verdict (on the node: quarantined, recovered or -) owner utterance session, as one word
--          after the other | stale
--          | alive (to be ended only if overdue, and it is not)
--          | repeated (the node has said so before; whoever asks may have missed the answer)
--          | gone (Redis knows nothing of the job: it lost its data, or forgot an old job; its slot is free)
-- include: clock
-- include: number
-- include: lease
-- include: leased
-- include: slots
-- include: record
-- include: judging
-- include: growing
local leases    = KEYS[1]   -- zset lease -> deadline
local free      = KEYS[2]   -- zset node -> free slots, only nodes that take work
local held      = KEYS[3]   -- zset node -> live leases
local limits    = KEYS[4]   -- hash node -> slots
local trouble   = KEYS[5]   -- hash node -> its last outcomes, quarantines in a row, when the last began
local sick      = KEYS[6]   -- zset node -> quarantined until
local trust     = KEYS[7]   -- hash node -> slots believed, good results since, slots claimed; only nodes that claim many
local job_keys  = {unpack(KEYS, 8)}  -- strings, the jobs' records
local rules     = ARGV[1]   -- of quarantine: failures window consecutive first_ms longest_ms; good results until more slots are believed
local overdue   = ARGV[2]   -- 1: only if its deadline has passed
local before    = ARGV[3]   -- states in which this may happen
local state     = ARGV[4]
local reason    = ARGV[5]
local linger_ms = ARGV[6]   -- 0: the slot is free at once
local mark      = ARGV[7]   -- o or x: what this says of the node; empty: nothing
local now_ms    = ARGV[8]
local ends      = {unpack(ARGV, 9)}  -- of each attempt: lease (job#attempt#node) and epoch; no epoch if it is not the node that says so

local moment = clock(now_ms)
local names, epochs, known, replies, over, given, lost = {}, {}, {}, {}, {}, {}, {}
-- A node may call its job anything.
for i = 1, #ends do names[i], epochs[i] = string.match(ends[i], '^(.*) (%S*)$') end
local deadlines = redis.call('ZMSCORE', leases, unpack(names))
for i, job_key in ipairs(job_keys) do
  local lease, epoch, job = names[i], epochs[i], read_record(job_key)
  local attempt, node = string.match(lease, '#([^#]*)#(.*)$')
  local is_same = job and job.attempt == attempt and job.node == node
  local current = is_same and string.find(before, job.state, 1, true)
  -- A record and its lease end together: a live record without one lost it with other data, and counts all the same.
  if not deadlines[i] and current and (epoch == '' or job.epoch == epoch) then
    known[i] = job
    given[node], lost[node] = (given[node] or 0) + 1, true
  elseif not deadlines[i] then
    local is_so = epoch ~= '' and is_same and job.epoch == epoch and job.state == state
    replies[i] = is_so and 'repeated' or job and 'stale' or 'gone'
  elseif overdue == '1' and tonumber(deadlines[i]) > moment then
    replies[i] = 'alive'
  elseif current and epoch ~= '' and job.epoch ~= epoch then
    replies[i] = 'stale'
  else
    if current and linger_ms ~= '0' then
      redis.call('ZADD', leases, moment + linger_ms, lease)
    else
      over[#over + 1] = lease
      given[node] = (given[node] or 0) + 1
    end
    -- A lease that outlived its attempt gives its slot back, but there is no job left to end.
    replies[i] = job and 'stale' or 'gone'
    known[i] = current and job
  end
end

if #over > 0 then redis.call('ZREM', leases, unpack(over)) end
give_back(given, lost, free, held, limits, leases)
local at_ms = string.format('%.0f', moment)
-- Usually nobody is in trouble, and a success changes nothing then.
local is_judged = mark ~= '' and (mark ~= 'o' or redis.call('EXISTS', trouble) == 1)
local grows_after = tonumber(string.match(rules, ' (%d+)$') or 0)
local is_trusted_more = mark ~= '' and grows_after > 0 and redis.call('EXISTS', trust) == 1
for i, job_key in ipairs(job_keys) do
  local job = known[i]
  if job then
    if is_trusted_more then grow(job.node, mark == 'o', grows_after, trust, free, held, limits) end
    move(job, state, at_ms, reason)
    write_record(job_key, job)
    local verdict = is_judged and judge(job.node, mark, job.dispatched_ms, moment, rules, trouble, sick, limits) or ''
    replies[i] = 'ended ' .. (verdict == '' and '-' or verdict) .. ' ' .. job.owner .. ' ' .. job.utterance .. ' ' .. job.session
  end
end
return replies

-- attempt_end: end attempts. Leases are removed by name, which makes this idempotent.
-- A node's message counts only in its current epoch; a sweep ends overdue attempts of any epoch. An attempt that was
-- given up while its node may still run it keeps its slot for `linger_ms`, or until the node releases it.
-- A batch: first everything is read, then slots are released, then records are written. Each job occurs once.
-- Replies: of each attempt: ended verdict (on the node: quarantined, recovered or -) owner utterance session, as one word
--          after the other | stale
--          | alive (to be ended only if overdue, which it is not)
--          | repeated (a repeat of the node's message; the caller may have missed the first answer)
--          | gone (no record of the job: Redis lost its data, or the record expired; its slot is free)
-- include: clock
-- include: number
-- include: lease
-- include: leased
-- include: slots
-- include: record
-- include: judging
-- include: growing
local leases    = KEYS[1]   -- zset lease -> deadline
local free      = KEYS[2]   -- zset node -> free slots, only nodes that accept jobs
local held      = KEYS[3]   -- zset node -> live leases
local limits    = KEYS[4]   -- hash node -> slots
local trouble   = KEYS[5]   -- hash node -> its last outcomes, quarantines in a row, when the last began
local sick      = KEYS[6]   -- zset node -> quarantined until
local trust     = KEYS[7]   -- hash node -> slots earned, successes since, slots announced; only nodes that announce many slots
local job_keys  = {unpack(KEYS, 8)}  -- strings, the jobs' records
local rules     = ARGV[1]   -- of quarantine: failures window consecutive first_ms longest_ms; successes until the node gets more slots
local overdue   = ARGV[2]   -- 1: only if its deadline has passed
local before    = ARGV[3]   -- states in which this may happen
local state     = ARGV[4]
local reason    = ARGV[5]
local linger_ms = ARGV[6]   -- 0: the slot is free at once
local mark      = ARGV[7]   -- o success, x failure of the node; empty: not counted
local now_ms    = ARGV[8]
local ends      = {unpack(ARGV, 9)}  -- of each attempt: lease (job#attempt#node) and epoch; no epoch if the node did not report it

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
-- Usually no node has failures, and none announces many slots: a success changes nothing then.
local is_usual = mark == '' or mark == 'o' and redis.call('EXISTS', trouble, trust) == 0
local is_judged = not is_usual and (mark ~= 'o' or redis.call('EXISTS', trouble) == 1)
local grows_after = tonumber(string.match(rules, ' (%d+)$') or 0)
local is_trusted_more = not is_usual and grows_after > 0 and redis.call('EXISTS', trust) == 1
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

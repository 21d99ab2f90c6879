-- attempt_advance: advance live attempts (accepted, started) and set new deadlines for their leases. A batch: each job
-- occurs once.
-- Replies: of each attempt: advanced | repeated (it is in that state already)
--          | stale (not the current attempt, not this node's, of an earlier epoch of the node, or ended)
-- include: clock
-- include: number
-- include: lease
-- include: leased
-- include: record
local leases   = KEYS[1]   -- zset lease -> deadline
local free     = KEYS[2]   -- zset node -> free slots, only nodes that accept jobs
local held     = KEYS[3]   -- zset node -> live leases
local limits   = KEYS[4]   -- hash node -> slots
local job_keys = {unpack(KEYS, 5)}  -- strings, the jobs' records
local before   = ARGV[1]   -- states in which this may happen
local state    = ARGV[2]
local now_ms   = ARGV[3]
local moves    = {unpack(ARGV, 4)}  -- of each attempt: lease (job#attempt#node) and epoch

local moment = clock(now_ms)
local at_ms = string.format('%.0f', moment)
-- A lease that was put back holds its slot again. `held` may have kept the count of it, and of others that are lost.
local function count_again(node)
  local leased = math.max(tonumber(redis.call('ZSCORE', held, node) or 0), #leases_of(node, leases))
  local limit = read_slots(redis.call('HGET', limits, node)) or 0
  redis.call('ZADD', held, leased, node)
  redis.call('ZADD', free, 'XX', 'LT', math.max(0, limit - leased), node)
end

local replies = {}
for i, job_key in ipairs(job_keys) do
  local lease, epoch = string.match(moves[i], '^(.*) (%S*)$')
  local attempt, node = string.match(lease, '#([^#]*)#(.*)$')
  local job = read_record(job_key)
  local deadline = redis.call('ZSCORE', leases, lease)
  replies[i] = 'stale'
  if job and job.attempt == attempt and job.node == node and job.epoch == epoch
    and (not deadline or tonumber(deadline) > moment) then
    if job.state == state then
      replies[i] = 'repeated'
    elseif string.find(before, job.state, 1, true) then
      -- Also a lease that got lost: a live record has one.
      redis.call('ZADD', leases, moment + (read_number(job.run_ms, 9) or 0), lease)
      if not deadline then count_again(node) end
      move(job, state, at_ms, '')
      write_record(job_key, job)
      replies[i] = 'advanced'
    end
  end
end
return replies

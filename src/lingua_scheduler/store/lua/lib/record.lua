-- A job's record is one string: a line of words that every job has, then lines that begin with a name. To Redis it is
-- one value, written whole: much cheaper than a hash of as many fields. A `-` stands for what there is not.
-- What does not look like one was not written by us, and is no record.
local function read_record(job_key)
  local text = redis.call('GET', job_key)
  if not text then return nil end
  local state, attempt, node, epoch, run_ms, dispatched_ms, utterance, owner, pool, session, rest = string.match(text,
    '^(%S+) (%d+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ([^\n]*)(.*)$')
  if not state or #attempt > 9 then return nil end
  return {state = state, attempt = attempt, node = node, epoch = epoch, run_ms = run_ms, dispatched_ms = dispatched_ms,
    utterance = utterance, owner = owner, pool = pool, session = session, rest = rest}
end

local function record_text(job)
  return job.state .. ' ' .. job.attempt .. ' ' .. job.node .. ' ' .. job.epoch .. ' ' .. job.run_ms .. ' '
    .. job.dispatched_ms .. ' ' .. job.utterance .. ' ' .. job.owner .. ' ' .. job.pool .. ' ' .. job.session .. job.rest
end

-- With an expiry; without one the existing expiry is kept.
local function write_record(job_key, job, keep_ms)
  local text = record_text(job)
  if keep_ms then redis.call('SET', job_key, text, 'PX', keep_ms) else redis.call('SET', job_key, text, 'KEEPTTL') end
end

-- The lines of a record with this one instead of any that has its name; an empty value is none.
local function with_line(rest, name, value)
  local first, last = string.find(rest, '\n' .. name .. ' [^\n]*')
  if first then rest = string.sub(rest, 1, first - 1) .. string.sub(rest, last + 1) end
  return value == '' and rest or rest .. '\n' .. name .. ' ' .. value
end

-- One more move of a job: it is in `state` now, and a line remembers that, `step state ms attempt node reason`.
-- The last KEPT moves are kept; it takes some attempts to get there.
local KEPT = 24
local function move(job, state, at_ms, reason)
  if tonumber(job.attempt) > 5 then
    local _, steps = string.gsub(job.rest, '\nstep ', '')
    if steps >= KEPT then job.rest = string.gsub(job.rest, '\nstep [^\n]*', '', 1) end
  end
  job.state = state
  job.rest = job.rest .. '\nstep ' .. state .. ' ' .. at_ms .. ' ' .. job.attempt .. ' ' .. job.node .. ' ' .. reason
end

-- login_code_take: redeem a one-time login code; of racing callers one gets the key's id.
-- Replies: taken key_id | unknown (never made, used already, or expired)
local code = KEYS[1]   -- string, id of the key that asked for the code

local key_id = redis.call('GET', code)
if not key_id then return {'unknown'} end
redis.call('DEL', code)
return {'taken', key_id}
